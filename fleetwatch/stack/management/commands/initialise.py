"""`manage.py initialise`: what every start needs before the web server: schema, static files,
admin, tokens. Safe to repeat.
"""

import argparse
import hashlib
import json
import os
import socket
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.utils import timezone

from fleetwatch.accounts.services import ensure_admin
from fleetwatch.costs.services import ensure_example_rates
from fleetwatch.demo import cast, demo_desk, fleet, loading, services
from fleetwatch.ingest import tokens
from fleetwatch.ledger import services as ledger
from fleetwatch.lib import env
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.sql import awaited_lock
from fleetwatch.stack import folder, former_schema
from fleetwatch.telemetry import matrices, partitions

MAX_HOURS = 10_000
PATIENCE_S = 1800  # the longest migration of a large hub, on another host
NEWEST = timedelta(hours=30)  # a job that idles may do so since yesterday
OPEN_CELLS = 18  # 90 minutes of heat map: the hours that are not sealed yet


class Command(HubCommand):
    help = (
        "Prepare the database and the static files for this version; on first start create the user"
        " admin."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--demo", action="store_true", help="make tokens for the simulated fleet"
        )
        parser.add_argument(
            "--this-host", action="store_true", help="make a token for an agent on this host"
        )
        parser.add_argument(
            "--answer",
            type=Path,
            default=None,
            help="write login and agents as JSON to this private file",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # Django asks for its key when it first signs something: here a hub without one ends before
        # it serves anybody
        env.check_secret_key(settings.SECRET_KEY)
        env.refuse_published("FLEETWATCH_ADMIN_PASSWORD", env.text("FLEETWATCH_ADMIN_PASSWORD"))
        self._collect_static()
        now = timezone.now()
        # of several web hosts that start at once, one after the other
        with awaited_lock("initialise", patience_s=PATIENCE_S):
            self._prepare_database(now, options)
            login = self._admin(now, options)
            if options["demo"]:
                demo_desk.set_up(now)
        agents = self._agents(options)
        if options["answer"] is not None:
            others = cast.sentence() if options["demo"] else ""
            answer = {"login": login, "others": others, "agents": agents}
            folder.write_private(options["answer"], json.dumps(answer))

    def _prepare_database(self, now: datetime, options: dict[str, Any]) -> None:
        former_schema.take_over()
        call_command("migrate", interactive=False, verbosity=0)
        self.stdout.write("schema is current")
        partitions.ensure(now)
        if options["demo"]:
            loading.mark_hub()
            self._store_newest_hours(now)
        ensure_example_rates(now)

    def _store_newest_hours(self, now: datetime) -> None:
        """So that the first page a visitor opens has figures, and what fired lately its true
        beginning: the newest hours of the history, stored and posted as ever.
        """
        chapters = services.missing_chapters(gpus=fleet.GPUS, days=fleet.DAYS, until=now)
        since_ms = to_ms(now - NEWEST)
        newest = [each for each in chapters if each.block.end_ms > since_ms]
        for day, windows in services.store(newest, clock=timezone.now):
            self.stdout.write(f"history day={day} windows={windows}")
        matrices.refresh_recent(now, count=OPEN_CELLS)
        posted = ledger.post(now, MAX_HOURS)
        self.stdout.write(f"posted {posted['hours']} hours to the ledger")

    def _collect_static(self) -> None:
        """Collects and compresses the static files when they differ from the last time."""
        stamp = settings.STATIC_ROOT / ".stamp"
        wanted = _static_stamp()
        if stamp.exists() and stamp.read_text() == wanted:
            return
        call_command("collectstatic", interactive=False, verbosity=0)
        stamp.write_text(wanted)
        self.stdout.write("static files collected")

    def _admin(self, now: datetime, options: dict[str, Any]) -> str:
        """How to log in, as a sentence; a password that was made now is said once."""
        given = env.text("FLEETWATCH_ADMIN_PASSWORD")
        made = ensure_admin(given or None)
        if made is None:
            return (
                "admin, with the password from the first start (forgotten: manage.py changepassword"
                " admin)"
            )
        if options["demo"]:
            cast.make_people(made, now=now)
        shown = "the password in FLEETWATCH_ADMIN_PASSWORD" if given else f"password {made}"
        if options["answer"] is None:
            self.stdout.write(f"created the user admin, {shown}")
        return f"admin, {shown}" if given else f"admin, {shown} (shown only now)"

    def _agents(self, options: dict[str, Any]) -> list[dict[str, str]]:
        """Node, source, labels and token file of each agent that runs beside the hub."""
        wanted = (
            [(node.name, node.source, node.labels) for node in fleet.nodes()]
            if options["demo"]
            else []
        )
        if options["this_host"]:
            wanted.append((socket.gethostname(), "auto", {}))
        return [
            {
                "node": name,
                "source": source,
                "labels": ",".join(f"{k}={v}" for k, v in labels.items()),
                "token_file": str(_token_file(name)),
            }
            for name, source, labels in wanted
        ]


def _token_file(node_name: str) -> Path:
    """A private file with a token of this node, made once."""
    path = settings.DATA_DIR / "agents" / f"{node_name}.token"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists() or not _speaks_for(path.read_text().strip(), node_name):
        folder.write_private(path, tokens.create_agent_token(node_name, timezone.now()))
    return path


def _speaks_for(token: str, node_name: str) -> bool:
    """False when the token was revoked, or belongs to another database than the file's folder."""
    try:
        return tokens.agent_token(token, timezone.now()).node.name == node_name
    except tokens.UnknownTokenError:
        return False


def _static_stamp() -> str:
    """Changes when a static file of ours or an installed package does."""
    facts = hashlib.sha256()
    for root in (settings.BASE_DIR / "static", settings.BASE_DIR / "requirements.txt"):
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file():
                facts.update(f"{path}:{os.stat(path).st_mtime_ns}".encode())
    return facts.hexdigest()
