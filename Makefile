# FleetWatch: `make demo` shows it, `make up` runs it, `make test` proves it.
PORT ?= 8000
HOST ?= 127.0.0.1
PYTHON ?= python3
RUN = .venv/bin/python
# what else of the suite test-citus runs
CITUS ?= tests/telemetry/test_seal.py tests/ledger/test_post.py tests/ledger/test_check_ledger.py tests/figures

.DEFAULT_GOAL := demo
.PHONY: help demo up test test-slurm test-identity test-channels test-day test-scale test-citus test-pages screenshots lint format bench bench-full agent requirements clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a simulated fleet with history, live, in one command (Ctrl-C stops it)
	@$(PYTHON) deploy/bootstrap.py run
	@exec $(RUN) manage.py up --demo --host $(HOST) --port $(PORT)

up: ## the same stack, empty, for real use
	@$(PYTHON) deploy/bootstrap.py run
	@exec $(RUN) manage.py up --host $(HOST) --port $(PORT)

test: ## lint, then everything: unit, integration on real Postgres and Redis, browser
	@$(PYTHON) deploy/bootstrap.py browser
	@$(MAKE) --no-print-directory lint
	@$(RUN) -m pytest -n auto --dist load

test-slurm: ## a real one-node Slurm from Debian's packages beside the agent and a hub, in three minutes (needs root; says why where it can't)
	@$(PYTHON) -m tests.slurm_lab.prepare
	@$(PYTHON) deploy/bootstrap.py dev
	@$(RUN) -m pytest tests/slurm_lab

test-identity: ## log-in by a real OpenID Connect provider (npm) and a real LDAP server (Debian's slapd), in a minute (says why where it can't)
	@$(PYTHON) -m tests.identity.prepare
	@$(PYTHON) deploy/bootstrap.py dev
	@$(RUN) -m pytest tests/identity

test-channels: ## mail by a real Postfix, /metrics and its rules by a real Prometheus (Debian's), in a minute (needs root; says why where it can't)
	@$(PYTHON) -m tests.channels.prepare
	@$(PYTHON) deploy/bootstrap.py dev
	@$(RUN) -m pytest tests/channels

test-day: ## a day of 64 GPUs and five people: a hub whose clock is moved, Slack, a real Postfix, Alertmanager and OpenID Connect provider (OUT=folder keeps pictures of pages and messages; needs root; says why where it can't)
	@$(PYTHON) -m tests.day.prepare
	@$(PYTHON) deploy/bootstrap.py browser
	@$(RUN) -m pytest tests/day

test-scale: ## a hub over several hosts on one machine, each of whose servers is killed: Patroni, etcd, HAProxy, PgBouncer, Redis with sentinels, in two minutes (needs root; says why where it can't)
	@$(PYTHON) -m tests.scale.prepare
	@$(PYTHON) deploy/bootstrap.py dev
	@$(RUN) -m pytest -s tests/scale

test-citus: ## the core on a Citus of three database nodes, and that their cents are those of one (builds it with Debian's gcc; needs root; says why where it can't)
	@$(PYTHON) deploy/bootstrap.py dev
	@$(PYTHON) -m tests.citus.prepare
	@$(RUN) -m pytest -p tests.citus.plugin tests/citus $(CITUS)

test-pages: ## every page in both themes and widths: no error, nothing cut off, nothing that axe finds
	@$(PYTHON) deploy/bootstrap.py browser
	@$(RUN) -m pytest tests/gallery

screenshots: ## the same pages of a demo, drawn into gallery/ with an index
	@$(PYTHON) deploy/bootstrap.py browser
	@FLEETWATCH_GALLERY=gallery $(RUN) -m pytest tests/gallery/draw_demo.py

lint: ## ruff, djangofmt, mypy, Django's checks, migrations complete (the architecture is a test)
	@$(PYTHON) deploy/bootstrap.py dev
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/djangofmt --quiet --check templates
	@.venv/bin/djangofmt --quiet check templates
	@.venv/bin/mypy agent cli fleetwatch release
	@SECRET_KEY=lint $(RUN) manage.py check --fail-level WARNING
	@SECRET_KEY=lint $(RUN) manage.py makemigrations --check --dry-run
	@$(RUN) -m pytest -q tests/test_architecture.py

format: ## ruff's format and safe fixes, djangofmt
	@$(PYTHON) deploy/bootstrap.py dev
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .
	@.venv/bin/djangofmt templates

bench: ## the benchmarks in twelve minutes, into docs/benchmarks.md (needs Debian's victoria-metrics, prometheus, prometheus-node-exporter, gcc)
	@$(PYTHON) deploy/bootstrap.py dev
	@$(RUN) -m benchmarks --size quick

bench-full: ## the same thoroughly, up to 10,000 GPUs, in about an hour
	@$(PYTHON) deploy/bootstrap.py dev
	@$(RUN) -m benchmarks --size full

agent: ## dist/: the agent as one file, wheel, Debian package and RPM, and the command line for people, with checksums
	@$(PYTHON) deploy/bootstrap.py run
	@$(RUN) -m release.agent_dist dist

requirements: ## pin requirements.in and requirements-dev.in with hashes
	@$(PYTHON) deploy/bootstrap.py dev
	@.venv/bin/pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links -o requirements.txt requirements.in
	@.venv/bin/pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-find-links -o requirements-dev.txt requirements-dev.in

clean: ## what was made here, but no data
	@rm -rf .venv dist staticfiles .pytest_cache .mypy_cache .ruff_cache .hypothesis
