#!/bin/sh
# The web container: prepares schema, static files and the first admin, then serves.
set -eu
python manage.py initialise
exec granian --interface wsgi --host 0.0.0.0 --port 8000 --workers "${FLEETWATCH_WEB_WORKERS:-2}" --blocking-threads 64 \
  --backpressure 128 --respawn-failed-workers --no-ws --log-level error fleetwatch.wsgi:application
