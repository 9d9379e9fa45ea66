#!/bin/sh
# The web container: prepares schema, static files and the first admin, then serves.
set -eu
python manage.py initialise
exec python -m fleetwatch.front --host 0.0.0.0 --port 8000 --workers "${FLEETWATCH_WEB_WORKERS:-2}"
