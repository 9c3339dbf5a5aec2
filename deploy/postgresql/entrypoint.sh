#!/bin/sh
# Makes a database that is not there yet, with the user and the password it is told, and becomes the server.
#
#   POSTGRES_USER           dropgate, who owns a database of that name
#   POSTGRES_PASSWORD_FILE  /run/secrets/postgresql_password
set -eu

: "${POSTGRES_USER:=dropgate}" "${POSTGRES_PASSWORD_FILE:=/run/secrets/postgresql_password}"
data=/var/lib/postgresql/data
programs=$(echo /usr/lib/postgresql/*/bin)

if [ ! -e "$data/PG_VERSION" ]; then
    "$programs/initdb" --pgdata="$data" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" \
        --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --no-instructions
    # Whoever is on its network may ask, and needs the password.
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_USER;" | "$programs/postgres" --single -D "$data" postgres >/dev/null
fi
exec "$programs/postgres" -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp
