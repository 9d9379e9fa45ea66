#!/bin/sh
# The web container: prepares schema, static files and the first admin, then serves.
set -eu
python manage.py initialise
export FLEETWATCH_DB_STATEMENT_S="${FLEETWATCH_DB_STATEMENT_S:-30}" # of what serves, not of the migration
exec python -m fleetwatch.front --host 0.0.0.0 --port 8000 --workers "${FLEETWATCH_WEB_WORKERS:-2}"
