#!/bin/bash
# What the official image's entry point promises for an empty and for a used volume.
set -euo pipefail
[ "${1:0:1}" != - ] || set -- postgres "$@"
[ "$1" = postgres ] || exec "$@"
# The official programs have these folders compiled in.
[[ "$*" == *unix_socket_directories* ]] || set -- "$@" -c unix_socket_directories=/var/run/postgresql,/tmp
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chmod 700 "$PGDATA"
    find "$PGDATA" /var/run/postgresql ! -user postgres -exec chown postgres {} +
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    user=${POSTGRES_USER:-postgres} database=${POSTGRES_DB:-${POSTGRES_USER:-postgres}}
    if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then POSTGRES_PASSWORD=$(<"$POSTGRES_PASSWORD_FILE"); fi
    if [ -z "${POSTGRES_PASSWORD:-}" ]; then
        echo "Error: Database is uninitialized and superuser password is not specified." >&2
        exit 1
    fi
    # shellcheck disable=SC2086 # a list of options
    initdb --username="$user" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") ${POSTGRES_INITDB_ARGS:-}
    printf '\nhost all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
    # Without TCP, so that a health check of 127.0.0.1 fails until the real start.
    pg_ctl -D "$PGDATA" -o "$(printf '%q ' "${@:2}" -c listen_addresses= -p 5432)" -w start
    run_sql() { psql -v ON_ERROR_STOP=1 --username "$user" --no-password --no-psqlrc "$@"; }
    export PGPASSWORD=$POSTGRES_PASSWORD
    if [ "$database" != postgres ]; then run_sql -d postgres -c "create database \"$database\""; fi
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
            *.sh) if [ -x "$file" ]; then "$file"; else . "$file"; fi ;;
            *.sql) run_sql -d "$database" -f "$file" ;;
        esac
    done
    pg_ctl -D "$PGDATA" -m fast -w stop
    unset PGPASSWORD
    echo "PostgreSQL init process complete; ready for start up."
fi
exec "$@"
