#!/bin/sh
# Makes the accounts and the configuration, and becomes smbd.
#
#   PORT       445
#   WORKGROUP  DROPGATE
set -eu

here=$(dirname "$0")
. "$here/../accounts.sh"
: "${PORT:=445}" "${WORKGROUP:=DROPGATE}"

make_accounts
hand_over_volumes

config=/etc/samba/drop.conf
mkdir -p /etc/samba /run/samba /var/lib/samba/private /var/cache/samba /var/log/samba

# What is not said here is Samba's own default: locking, caching and renames are what the tests are about.
cat >"$config" <<END
[global]
    server role = standalone server
    workgroup = $WORKGROUP
    server min protocol = SMB2
    smb ports = $PORT
    disable netbios = yes
    map to guest = never
    load printers = no
    disable spoolss = yes
    log level = 1
END
if [ "$LISTEN" != 0.0.0.0 ]; then
    cat >>"$config" <<END
    interfaces = $LISTEN
    bind interfaces only = yes
END
fi
share() {
    cat >>"$config" <<END

[$1]
    path = /srv/$1
    read only = $2
    valid users = $DROP_USER $FOREIGN_USER
END
}
share data no
share other no
share full no
share readonly yes

add_login() {
    printf '%s\n%s\n' "$2" "$2" | smbpasswd -c "$config" -s -a "$1" >/dev/null
}
add_login "$DROP_USER" "$DROP_PASSWORD"
add_login "$FOREIGN_USER" "$FOREIGN_PASSWORD"

exec /usr/sbin/smbd --configfile="$config" --foreground --no-process-group --debug-stdout
