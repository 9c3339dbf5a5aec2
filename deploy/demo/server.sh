#!/bin/sh
# Starts one of the servers of compose/ with a password from a file, and with the folders that the demonstration uses.
#
#   server.sh openssh|samba NAME-OF-SECRET FOLDER...
set -eu

kind=$1
DROP_PASSWORD=$(cat "/run/secrets/$2")
# Nobody logs in as the other account.
FOREIGN_PASSWORD=$(head -c 18 /dev/urandom | base64)
export DROP_PASSWORD FOREIGN_PASSWORD
shift 2
for folder in "$@"; do
    install -d -o 2000 -g 2000 "/srv/data/$folder"
done

if [ "$kind" = openssh ]; then
    mkdir -p /etc/ssh/drop
    [ -e /etc/ssh/drop/ed25519 ] || ssh-keygen -q -N '' -t ed25519 -f /etc/ssh/drop/ed25519
    # Told over a volume that the two share, and not over the network: so there is nobody in between.
    sed 's/^/sftp /' /etc/ssh/drop/ed25519.pub >/known/known_hosts
fi
exec sh "/usr/local/lib/drop/$kind/entrypoint.sh"
