#!/bin/sh
# Sends an order every few seconds, as a shop would.
set -eu

trap "exit 0" TERM INT
config=/etc/dropgate/dropgate.toml
number=0
while :; do
    number=$((number + 1))
    printf 'order;amount\n%s;%s.00\n' "$number" "$((number % 90 + 10))" >/tmp/order.csv
    # A server that is not there yet is tried again.
    dropgate send shop /tmp/order.csv --group orders_ --config "$config" || :
    sleep "${PAUSE:-3}"
done
