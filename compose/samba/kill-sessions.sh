#!/bin/sh
# Kills every smbd that serves a connection, and leaves the listener alone.
set -eu
# smbstatus lists them as: PID Username Group Machine ...
smbstatus --configfile=/etc/samba/drop.conf --processes 2>/dev/null | while read -r pid _; do
    case $pid in
        *[!0-9]* | '') ;;
        *) kill -KILL "$pid" 2>/dev/null || : ;;
    esac
done
