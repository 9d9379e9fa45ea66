"""What somebody sees at a shell, and how it ends where it can't."""

import json
import stat

import pytest
from django.utils import timezone

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.diagnosis.models import Finding

pytestmark = pytest.mark.django_db(transaction=True)
KEY = "slurm/della/1000"


def test_jobs_waste_and_figures_are_read_as_the_api_has_them(shell):
    ann = User.objects.get(username="ann")
    shell.environment["FLEETWATCH_TOKEN"] = create_api_token(ann, scope="read", now=timezone.now())
    answers = {
        name: shell.run(*name.split())
        for name in ("me", f"job {KEY}", "job 1000", "waste --by user", "explain --user ann", "top")
    }
    as_json = {
        name: json.loads(shell.run(*name.split(), "--json").stdout)
        for name in ("me", f"job {KEY}", "waste --by user", "explain --user ann", "top")
    }

    assert {
        name: (each.returncode, each.stderr) for name, each in answers.items()
    } == dict.fromkeys(answers, (0, ""))
    printed = {name: each.stdout for name, each in answers.items()}
    assert "ann · engineer" in printed["me"]
    assert KEY in printed["me"]
    assert printed["job 1000"] == printed[f"job {KEY}"]
    assert "could save $1.25–$2.49" in printed["job 1000"]
    # by hand: an hour of 2.49 dollars, of which a half to all could be recovered
    finding = as_json[f"job {KEY}"]["findings"][0]
    assert (finding["savings"]["low_usd"], finding["savings"]["high_usd"]) == (1.245, 2.49)
    assert as_json["me"]["rows"][0]["key"] in printed["me"]
    row = next(row for row in as_json["waste --by user"]["rows"] if row["key"] == "ann")
    dollars = f"${row['cost_usd']['total']:,.2f}"
    assert dollars in printed["waste --by user"]
    assert f"{dollars} for" in printed["explain --user ann"]
    assert "GPUs, of which" in printed["top"]
    for text in printed.values():
        assert not any(each in text for each in ("\x1b", "\x07", "\u202e"))


def test_what_is_agreed_as_not_waste_is_called_that_at_a_shell_too(shell):
    ann = User.objects.get(username="ann")
    shell.environment["FLEETWATCH_TOKEN"] = create_api_token(ann, scope="read", now=timezone.now())
    Finding.objects.update(status="dismissed")

    printed = shell.run("job", "1000").stdout

    assert " · agreed as not waste · could save $1.25–$2.49" in printed
    assert "dismissed" not in printed


def test_every_bad_start_is_one_line_and_a_status(shell, tmp_path):
    readable = tmp_path / "token"
    readable.write_text("fw_x")
    readable.chmod(0o644)
    ann = User.objects.get(username="ann")
    token = create_api_token(ann, scope="read", now=timezone.now())
    bad = {
        3: [
            ({}, ["me"], "nobody is logged in"),
            ({"FLEETWATCH_TOKEN": "fw_nobodys"}, ["me"], "does not take this token"),
        ],
        2: [
            ({}, [], "COMMAND"),
            ({}, ["fly"], "invalid choice"),
            ({}, ["waste", "--limit", "0"], "a whole number from 1 to 1000"),
            ({"FLEETWATCH_TOKEN_FILE": str(readable)}, ["me"], "others may read"),
            ({"FLEETWATCH_TOKEN_FILE": "/nowhere"}, ["me"], "can't be read"),
            ({"FLEETWATCH_TOKEN": "two\nlines"}, ["me"], "this is no API token"),
            ({"FLEETWATCH_TOKEN": token}, ["me", "--from", "yesterday"], "(from)"),
            ({"FLEETWATCH_TOKEN": token}, ["job"], "which job?"),
            ({"FLEETWATCH_TOKEN": token}, ["job", "77"], "no job of yours"),
            ({"FLEETWATCH_TOKEN": token}, ["me", "--server", "ftp://x"], "no address of a hub"),
        ],
        1: [
            ({"FLEETWATCH_TOKEN": token}, ["job", "slurm/della/9"], "there is no such job"),
            ({"FLEETWATCH_TOKEN": token}, ["me", "--server", "http://127.0.0.1:9"], "not answer"),
        ],
    }
    for status, cases in bad.items():
        for environment, arguments, words in cases:
            shell.environment = environment
            ended = shell.run(*arguments)
            assert (ended.returncode, words in ended.stderr) == (status, True), ended
            assert "Traceback" not in ended.stderr


def test_a_token_goes_to_no_other_address(shell, httpserver_elsewhere):
    """A redirect is not followed, and a log-in counts for its own hub alone."""
    shell.environment["FLEETWATCH_TOKEN"] = "fw_mine"
    ended = shell.run("me", "--server", httpserver_elsewhere.redirecting)

    assert (ended.returncode, "sends elsewhere" in ended.stderr) == (1, True)
    assert httpserver_elsewhere.asked == []


@pytest.fixture
def httpserver_elsewhere():
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    class Elsewhere:
        asked: list[str] = []
        redirecting = ""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/api/"):
                self.send_response(302)
                self.send_header("Location", f"{Elsewhere.redirecting}/taken")
            else:
                Elsewhere.asked.append(self.path)
                self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Elsewhere.redirecting = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield Elsewhere
    server.shutdown()
    server.server_close()


def test_the_file_is_what_its_checksum_says_and_knows_its_hub(shell, client):
    import hashlib

    said = client.get("/cli/fleetwatch.sha256").content.decode()

    assert said == f"{hashlib.sha256(shell.command.read_bytes()).hexdigest()}  fleetwatch\n"
    assert f"the hub's address ({shell.hub})" in " ".join(shell.run("me", "--help").stdout.split())
    assert stat.S_IMODE(shell.command.stat().st_mode) == 0o755
