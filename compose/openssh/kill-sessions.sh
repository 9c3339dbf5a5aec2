#!/bin/sh
# Kills every process that serves a connection, and leaves the listener alone.
set -eu
listener=$(cat /run/drop-sshd.pid)
for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    [ "$pid" != "$listener" ] || continue
    # A process may have ended since the listing.
    name=$(cat "$folder/comm" 2>/dev/null) || continue
    case $name in
        sshd | sshd-session | sshd-auth | sftp-server) kill -KILL "$pid" 2>/dev/null || : ;;
    esac
done
