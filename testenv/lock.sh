#!/bin/sh
# The lock file: every library with its version and hashes, and no address of where it comes from.
#
#   lock.sh write   makes requirements.lock anew from pyproject.toml, keeping the versions that still fit
#   lock.sh check   fails where that would change it
set -eu

resolve() {
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
        --group pyproject.toml:dev pyproject.toml --output-file "$1"
}

case ${1:-} in
    write)
        resolve requirements.lock
        ;;
    check)
        if grep -n '://' requirements.lock; then
            echo "lock: requirements.lock names an address" >&2
            exit 1
        fi
        # The present pins are what the resolver starts from, so only a change of pyproject.toml makes a difference.
        fresh=$(mktemp)
        trap 'rm -f "$fresh"' EXIT
        cp requirements.lock "$fresh"
        resolve "$fresh" >/dev/null
        if ! diff -u requirements.lock "$fresh" >&2; then
            echo "lock: requirements.lock does not fit pyproject.toml; run: make lock" >&2
            exit 1
        fi
        ;;
    *)
        echo "lock.sh write|check" >&2
        exit 2
        ;;
esac
