#!/bin/sh
# Makes the accounts and the configuration, and becomes sshd.
#
#   PORT            22
#   AUTHORIZED_KEY  a public key that DROP_USER may log in with
set -eu

here=$(dirname "$0")
. "$here/../accounts.sh"
: "${PORT:=22}" "${AUTHORIZED_KEY:=}"

make_accounts
hand_over_volumes

if [ -n "$AUTHORIZED_KEY" ]; then
    home=$(getent passwd "$DROP_USER" | cut -d: -f6)
    mkdir -p "$home/.ssh"
    printf '%s\n' "$AUTHORIZED_KEY" >"$home/.ssh/authorized_keys"
    chown -R "$DROP_UID:$DROP_UID" "$home/.ssh"
    chmod -R go= "$home/.ssh"
fi

# Of this server alone, in a folder of their own so that they can be kept.
keys=/etc/ssh/drop
mkdir -p "$keys"
for kind in ed25519 ecdsa; do
    [ -e "$keys/$kind" ] || ssh-keygen -q -N '' -t "$kind" -f "$keys/$kind"
done

config=/etc/ssh/drop_sshd_config
cat >"$config" <<END
ListenAddress $LISTEN
Port $PORT
HostKey $keys/ed25519
HostKey $keys/ecdsa
PidFile /run/drop-sshd.pid
# The accounts are in the shadow file; sessions need nothing else of PAM.
UsePAM no
PasswordAuthentication yes
PermitRootLogin no
X11Forwarding no
PrintMotd no
# Tests open many connections at once, all from one address.
MaxStartups 200
Subsystem sftp /usr/lib/openssh/sftp-server
END
# OpenSSH from 9.8 on locks out an address after a few refused logins; older ones do not know the word.
if /usr/sbin/sshd -t -f "$config" -o PerSourcePenalties=no 2>/dev/null; then
    echo 'PerSourcePenalties no' >>"$config"
fi

mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -f "$config"
