#!/bin/sh
# Makes the environment in .venv from requirements.lock:  setup.sh PYTHON
#
# PYTHON is tried first, then others by name: what comes with the system may be too old, or too new.
set -eu

suits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

python=
for candidate in "$1" python3 python3.13 python3.12 python3.11; do
    if suits "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "setup: Python 3.11, 3.12 or 3.13 is needed; name one: make setup PYTHON=/path/to/python" >&2
    exit 1
fi

has_venv() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null
}

if ! has_venv; then
    # Debian packages this part of Python apart.
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing $package" >&2
        export DEBIAN_FRONTEND=noninteractive
        install() { apt-get install --quiet=2 --yes --no-install-recommends "$package" </dev/null >/dev/null 2>&1; }
        install || { apt-get update --quiet=2 </dev/null >/dev/null && install; } || :
    fi
    if ! has_venv; then
        echo "setup: $python cannot make an environment; on Debian: apt-get install $package" >&2
        exit 1
    fi
fi

if ! .venv/bin/python -c '' 2>/dev/null; then
    "$python" -m venv --clear .venv
fi
echo "setup: installing into .venv" >&2
pip() {
    # Twice: what the machine's own configuration makes pip warn of is no concern of this project.
    .venv/bin/python -m pip --quiet --quiet --disable-pip-version-check --no-input "$@"
}
pip install --require-hashes --requirement requirements.lock
pip install --no-deps --no-build-isolation --editable .
touch .venv/.ready
