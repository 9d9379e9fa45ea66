#!/bin/sh
# The replica's container: copies the primary once, then follows it.
set -eu
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  install -d -o postgres -g postgres -m 700 "$PGDATA"
  until pg_isready -q; do sleep 1; done
  # --write-recovery-conf keeps how it finds the primary, password included, in the data folder
  as_postgres pg_basebackup --pgdata="$PGDATA" --write-recovery-conf --wal-method=stream --checkpoint=fast
fi
# a page that reads here is not cancelled by a vacuum there
exec setpriv --reuid=postgres --regid=postgres --init-groups postgres -c listen_addresses='*' \
  -c hot_standby_feedback=on -c max_standby_streaming_delay=60s
