#!/bin/sh
# Hands a file over to a local drop with signal = "checksum", with nothing but the shell and coreutils.
#
#   hand-over.sh DROP GROUP NUMBER FILE        hand-over.sh /srv/exchange/in orders_ 42 today.csv
#
# The number is the producer's own, and each is used once: a taken one is refused. `dropgate receive DROP --signal checksum ...`
# takes what is handed over, or a route from a drop with signal = "checksum".
set -eu

drop=$1 group=$2 number=$3 file=$4
name=$(printf '%s%010d.%s' "$group" "$number" "${file##*.}")

# In any state, also after it was processed.
for taken in "$drop"/*"${name%.*}".* "$drop"/*"${name%.*}"+*; do
    [ ! -e "$taken" ] || { echo "number $number is in use: $taken" >&2; exit 1; }
done

# 1. Before images: nobody reads them. noclobber makes the creation exclusive.
set -C
: >"$drop/B_$name"
trap 'rm -f -- "$drop/B_$name" "$drop/B_$name.sha256"' EXIT
cat -- "$file" >>"$drop/B_$name"
(cd "$drop" && sha256sum "B_$name") | sed 's/  B_/  /' >"$drop/B_$name.sha256"
sync "$drop/B_$name" "$drop/B_$name.sha256"

# 2. Ready names, the checksum file last: that one is the signal. A hard link never replaces; mv would.
ln -T -- "$drop/B_$name" "$drop/$name"
ln -T -- "$drop/B_$name.sha256" "$drop/$name.sha256"
sync "$drop"
