#!/bin/sh
# The demonstration of compose.yaml:  demo.sh up | logs | tail [SERVICE] | status | down
#
#   SECRETS  where its secrets are, and are made once; deploy/secrets unless given
#   MORE     another compose file, which stands over compose.yaml
#   PROJECT  the name of its containers; dropgate-demo unless given
set -eu

here=$(cd "$(dirname "$0")" && pwd)
: "${SECRETS:=$here/secrets}" "${PROJECT:=dropgate-demo}"
export SECRETS

if docker compose version >/dev/null 2>&1; then
    compose() { docker compose --project-name "$PROJECT" --file "$here/compose.yaml" ${MORE:+--file "$MORE"} "$@"; }
elif command -v docker-compose >/dev/null; then
    compose() { docker-compose --project-name "$PROJECT" --file "$here/compose.yaml" ${MORE:+--file "$MORE"} "$@"; }
else
    echo "demo: docker compose is needed; on Debian: apt-get install docker-compose" >&2
    exit 1
fi

fresh() { head -c 24 /dev/urandom | base64 | tr '+/' '-_'; }

make_secrets() {
    # Nobody else comes into the folder; in the containers another account has to read the files.
    (umask 077 && mkdir -p "$SECRETS")
    for name in endpoint__sftp__password endpoint__smb__password postgresql_password web__token; do
        [ -e "$SECRETS/$name" ] || fresh >"$SECRETS/$name"
    done
    [ -e "$SECRETS/ledger__url" ] ||
        echo "postgresql://dropgate:$(cat "$SECRETS/postgresql_password")@postgresql/dropgate" >"$SECRETS/ledger__url"
    chmod 644 "$SECRETS"/*
}

case ${1:-} in
    up)
        make_secrets
        # NO_BUILD: the images are there already.
        compose up --detach "--${NO_BUILD:+no-}build"
        echo "the page: http://127.0.0.1:${PAGE_PORT:-8080}, with the token in $SECRETS/web__token"
        ;;
    secrets) make_secrets ;;
    logs) compose logs --follow gateway producer consumer ;;
    tail)
        shift
        compose logs --tail=30 "$@"
        ;;
    status) compose ps ;;
    down) compose down --volumes --timeout 90 ;;
    *)
        echo "demo.sh up | logs | tail [SERVICE] | status | down" >&2
        exit 2
        ;;
esac
