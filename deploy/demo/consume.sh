#!/bin/sh
# Takes the orders, and shows what each holds.
set -eu

while :; do
    dropgate receive office --group orders_ --exec 'tail -n 1 {}' --config /etc/dropgate/dropgate.toml && exit 0
    # It has ended because it could not begin: a server is not there yet.
    sleep "${PAUSE:-3}"
done
