#!/bin/sh
# An agent with simulated GPUs beside the hub, to see it work without a GPU.
set -eu
umask 077
python manage.py create_agent_token simulated-01 >/tmp/token
FLEETWATCH_TOKEN_FILE=/tmp/token exec python -m agent run --server http://web:8000 --node simulated-01 \
  --source "${FLEETWATCH_SIMULATED:-simulated:8xH100,seed=7}" --spool /tmp/spool
