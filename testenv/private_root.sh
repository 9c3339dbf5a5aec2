#!/bin/sh
# Runs a server of compose/ as a plain process of this machine, with the folders it writes to made private.
#
# Called inside a fresh mount and PID namespace, as:  private_root.sh COMPOSE_FOLDER RUN_FOLDER openssh|samba
# RUN_FOLDER holds data/ and readonly/, and will hold keys/. The server sees the paths that it would see in its container, adds
# its accounts to a copy of /etc, and leaves nothing else behind: mounts and processes end with the namespace.
set -eu
compose=$1 run=$2 server=$3

# Everything is gathered in one place first: COMPOSE_FOLDER and RUN_FOLDER may be beneath a folder that is covered below.
stage=$run/$server.stage
keys=$run/keys
mkdir -p "$stage" "$keys"
mount -t tmpfs -o mode=755 tmpfs "$stage"
mkdir "$stage/etc" "$stage/srv"
cp -a /etc/. "$stage/etc/"
cp -R "$compose" "$stage/etc/drop"
mkdir "$stage/etc/ssh/drop"
# A restart makes all of this anew, and a server that has new keys is another server.
mount --bind "$keys" "$stage/etc/ssh/drop"
mkdir "$stage/srv/data" "$stage/srv/other" "$stage/srv/full" "$stage/srv/readonly"
mount --bind "$run/data" "$stage/srv/data"
mount -t tmpfs -o mode=755 tmpfs "$stage/srv/other"
mount -t tmpfs -o size=1m,mode=755 tmpfs "$stage/srv/full"
mount --bind "$run/readonly" "$stage/srv/readonly"
mount -o remount,bind,ro "$stage/srv/readonly"

mount --rbind "$stage/etc" /etc
mount --rbind "$stage/srv" /srv
for folder in /home /run /var/lib/samba /var/cache/samba /var/log/samba; do
    [ ! -d "$folder" ] || mount -t tmpfs -o mode=755 tmpfs "$folder"
done

exec sh "/etc/drop/$server/entrypoint.sh"
