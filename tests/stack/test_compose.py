"""docker-compose.yml without Docker: what it asks of .env, what it publishes, and its Redis, run as
it says.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import redis as client
import yaml

from fleetwatch.lib.env import PUBLISHED
from fleetwatch.stack import redis
from tests.stack.living import ROOT, free_port

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SECRETS = {"POSTGRES_PASSWORD", "REDIS_PASSWORD", "SECRET_KEY"}


def strings(node: object) -> list[str]:
    """Every text below the node."""
    if isinstance(node, dict):
        return [text for value in node.values() for text in strings(value)]
    if isinstance(node, list):
        return [text for value in node for text in strings(value)]
    return [node] if isinstance(node, str) else []


def test_compose_refuses_to_start_without_each_secret():
    named = [
        name
        for text in strings(COMPOSE)
        for name in re.findall(r"\$\{(\w+)", text)
        if name in SECRETS
    ]
    required = [name for text in strings(COMPOSE) for name in re.findall(r"\$\{(\w+):\?", text)]

    assert set(named) == SECRETS
    assert sorted(required) == sorted(named)


def test_the_example_has_no_secret_that_would_do():
    lines = [
        line.partition("=")
        for line in (ROOT / ".env.example").read_text().splitlines()
        if "=" in line and line[0] != "#"
    ]
    given = {name: value for name, _, value in lines}

    assert given.keys() >= SECRETS
    assert [name for name in SECRETS if given[name] and not PUBLISHED.match(given[name])] == []


def test_every_setting_of_the_readme_can_be_given_in_dot_env():
    """But what compose itself sets: the servers' addresses by their passwords, and the data folder,
    a volume.
    """
    table = (ROOT / "README.md").read_text().partition("## Configuration")[2].partition("\n## ")[0]
    names = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    given = {name for text in strings(COMPOSE) for name in re.findall(r"\$\{(\w+)", text)}

    assert len(names) > 20
    assert names - given == {"DATABASE_URL", "REDIS_URL", "FLEETWATCH_DATA"}


def test_a_hub_starts_with_what_compose_gives_where_dot_env_says_nothing():
    values = {
        name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
        for name, value in COMPOSE["x-hub"]["environment"].items()
    }
    filled = {
        name: re.sub(r"\$\{\w+:\?[^}]*\}", "0123456789abcdef" * 2, value)
        for name, value in values.items()
    }
    environment = {"PATH": os.environ["PATH"], "FLEETWATCH_STATIC_ROOT": "/tmp", **filled}
    ask = (
        "from django.conf import settings; print(settings.RAW_RETENTION_DAYS,"
        " settings.ALLOW_PRIVATE_WEBHOOKS, settings.METRICS_ALLOW)"
    )

    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", ask],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("35 True []\n", "")


def test_no_port_but_the_webs_is_published():
    assert [name for name, service in COMPOSE["services"].items() if "ports" in service] == ["web"]


@pytest.fixture
def redis_of_compose(tmp_path):
    """The Redis service's own command, on a free port: its URL as the hub gets it, and its
    process.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/redis-server").symlink_to(redis.binary())
    port = free_port()
    shell, flag, line = COMPOSE["services"]["redis"]["command"]
    line = (
        line.replace("$$", "$").strip().replace("--bind 0.0.0.0", f"--bind 127.0.0.1 --port {port}")
    )
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "REDIS_PASSWORD": "a-password-of-ours",
    }
    process = subprocess.Popen(
        [shell, flag, line], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    url = COMPOSE["x-hub"]["environment"]["REDIS_URL"]
    url = re.sub(r"\$\{REDIS_PASSWORD[^}]*\}", "a-password-of-ours", url).replace(
        "@redis:6379", f"@127.0.0.1:{port}"
    )
    yield url, process
    process.terminate()
    process.wait(10)


def test_its_redis_answers_nobody_without_the_password_and_shows_it_in_no_process_list(
    redis_of_compose,
):
    url, process = redis_of_compose
    patient = client.retry.Retry(client.backoff.ConstantBackoff(0.05), 200)
    known = client.Redis.from_url(url, retry=patient)
    stranger = client.Redis.from_url(re.sub(r":[^/@]*@", "", url))

    assert known.ping()
    with pytest.raises(client.AuthenticationError):
        stranger.get("x")
    shown = Path(f"/proc/{process.pid}/cmdline").read_text()
    assert "redis-server" in shown
    assert "a-password-of-ours" not in shown
