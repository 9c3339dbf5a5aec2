#!/bin/sh
# Takes the orders, and shows what each holds.
set -eu

child=
# The item at hand is finished, and no claim is left.
trap '[ -z "$child" ] || kill -TERM "$child"; wait; exit 0' TERM INT
while :; do
    dropgate receive office --group orders_ --exec 'tail -n 1 {}' --config /etc/dropgate/dropgate.toml &
    child=$!
    wait "$child" || :
    # It has ended by itself because it could not begin: a server is not there yet.
    sleep "${PAUSE:-3}"
done
