#!/bin/sh
# Makes a cluster in PGDATA unless there is one, and runs the server. Arguments go to the server.
#   POSTGRES_USER (postgres), POSTGRES_PASSWORD, POSTGRES_DB (the user's name)
#   POSTGRES_HOST_AUTH_METHOD  how clients prove who they are: scram-sha-256 (the default, needs the password) or trust
#   PRIMARY_HOST               makes this a standby that streams from there; password and user are the primary's
#   PGDATA (/tmp/data)         its parent must be writable by user 65532
set -eu
: "${PGDATA:=/tmp/data}" "${POSTGRES_USER:=postgres}" "${POSTGRES_DB:=$POSTGRES_USER}" "${POSTGRES_HOST_AUTH_METHOD:=scram-sha-256}"
: "${POSTGRES_PASSWORD:=}" "${PRIMARY_HOST:=}"
export PGDATA
sockets=${PGDATA%/*}
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  if [ -z "$POSTGRES_PASSWORD" ] && [ "$POSTGRES_HOST_AUTH_METHOD" != trust ]; then
    echo "POSTGRES_PASSWORD is empty: set it, or POSTGRES_HOST_AUTH_METHOD=trust to admit everybody" >&2
    exit 2
  fi
  umask 077
  if [ -n "$PRIMARY_HOST" ]; then
    until PGPASSWORD=$POSTGRES_PASSWORD pg_basebackup -h "$PRIMARY_HOST" -U "$POSTGRES_USER" -D "$PGDATA" -R -X stream -c fast --no-sync \
      -d "password=$POSTGRES_PASSWORD"; do
      rm -rf "$PGDATA"
      sleep 1
    done
  else
    printf '%s' "$POSTGRES_PASSWORD" >"$sockets/password"
    if [ -z "$POSTGRES_PASSWORD" ]; then printf x >"$sockets/password"; fi
    initdb --username="$POSTGRES_USER" --pwfile="$sockets/password" --encoding=UTF8 --locale=C \
      --auth-local=trust --auth-host="$POSTGRES_HOST_AUTH_METHOD" --no-sync
    rm -f "$sockets/password"
    printf 'host %s all all %s\n' all "$POSTGRES_HOST_AUTH_METHOD" replication "$POSTGRES_HOST_AUTH_METHOD" >>"$PGDATA/pg_hba.conf"
    if [ "$POSTGRES_DB" != postgres ]; then
      echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -j postgres
    fi
  fi
fi
# A server that is told to end waits for its clients, a pod that is deleted should not: SIGINT makes it break connections.
postgres -c "listen_addresses=*" -c "unix_socket_directories=$sockets" "$@" &
server=$!
trap 'kill -INT $server' TERM INT
status=0
wait $server || status=$?
# A trap ends the first wait; the second has the status.
if kill -0 $server 2>/dev/null; then
  status=0
  wait $server || status=$?
fi
exit $status
