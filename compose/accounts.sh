# Sourced by both entrypoints: the two accounts, and the volumes they work in.
#
#   DROP_USER     DROP_PASSWORD     DROP_UID      owns the volumes
#   FOREIGN_USER  FOREIGN_PASSWORD  FOREIGN_UID   owns nothing; may write where all may: /srv/data/foreign
#
# The same numbers in both servers let them serve one folder of the host side by side.

: "${DROP_USER:=drop}" "${DROP_PASSWORD:=drop}" "${DROP_UID:=2000}"
: "${FOREIGN_USER:=stranger}" "${FOREIGN_PASSWORD:=stranger}" "${FOREIGN_UID:=2001}"
# Where to listen: a container has its own addresses, a plain process shares those of the host.
: "${LISTEN:=0.0.0.0}"

make_account() {
    user=$1 password=$2 uid=$3
    if ! getent passwd "$user" >/dev/null; then
        # Not unique on purpose: the host's own user may have the number that the folder of the host needs.
        groupadd --non-unique --gid "$uid" "$user"
        useradd --non-unique --uid "$uid" --gid "$uid" --create-home --skel /nonexistent --shell /bin/sh "$user"
    fi
    printf '%s:%s\n' "$user" "$password" | chpasswd
}

make_accounts() {
    make_account "$DROP_USER" "$DROP_PASSWORD" "$DROP_UID"
    make_account "$FOREIGN_USER" "$FOREIGN_PASSWORD" "$FOREIGN_UID"
}

hand_over_volumes() {
    for volume in /srv/data /srv/other /srv/full; do
        mkdir -p "$volume"
        chown "$DROP_UID:$DROP_UID" "$volume"
        chmod 755 "$volume"
    done
    # Not sticky: anybody may rename anybody's file there, and yet link() refuses files of another owner
    # (fs.protected_hardlinks), which is where OpenSSH's rename stops being atomic.
    mkdir -p /srv/data/foreign
    chown "$DROP_UID:$DROP_UID" /srv/data/foreign
    chmod 777 /srv/data/foreign
}
