"""One story of a hub (hub_story.py), told to one database node and to three: what comes in, is
posted, sealed, summed, diagnosed, judged and shown is the same, to the last digit.
"""

import json
import os
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from tests.citus.cluster import Cluster
from tests.citus.hub_story import PAGES, PARTS
from tests.stack.living import ROOT

STORY_S = 500


def started(number: int, url: str, when: str) -> "subprocess.Popen[str]":
    redis = os.environ["REDIS_URL"]
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.citus.hub_story", when],
        cwd=ROOT,
        # none of them reads what another one cached
        env={**os.environ, "DATABASE_URL": url, "REDIS_URL": f"{redis}?db={number}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(story: "subprocess.Popen[str]") -> dict[str, Any]:
    said, log = story.communicate(timeout=STORY_S)
    assert story.returncode == 0, log
    return json.loads(said)


def manage(url: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=STORY_S,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def outcomes(cluster: Cluster, one_node: str) -> dict[str, dict[str, Any]]:
    """Of a hub that was never distributed, one that was while it was empty, and one that was when
    half of its day was there.
    """
    stories = {"never": started(1, one_node, "never")}
    for number, when in enumerate(("first", "later"), 2):
        cluster.make(f"hub_{when}")
        stories[when] = started(number, cluster.url_of(f"hub_{when}"), when)
    return {when: ended(story) for when, story in stories.items()}


@pytest.mark.parametrize("when", ["first", "later"])
def test_three_database_nodes_have_the_dollars_of_one(outcomes, when):
    assert len(outcomes["never"]["dollars"]["team"]) > 2
    assert outcomes[when]["dollars"] == outcomes["never"]["dollars"]


@pytest.mark.parametrize("when", ["first", "later"])
def test_three_database_nodes_have_the_findings_and_incidents_of_one(outcomes, when):
    assert outcomes["never"]["findings"]
    assert outcomes["never"]["incidents"]
    assert outcomes[when]["findings"] == outcomes["never"]["findings"]
    assert outcomes[when]["incidents"] == outcomes["never"]["incidents"]


def test_a_backup_of_three_database_nodes_is_restored_to_one(outcomes, cluster, one_node, tmp_path):
    with psycopg.connect(one_node, autocommit=True) as connection:
        connection.execute("CREATE DATABASE restored")
    restored = one_node.replace("@/fleetwatch?", "@/restored?")

    manage(cluster.url_of("hub_first"), "backup", str(tmp_path / "hub.backup"))
    manage(restored, "restore", str(tmp_path / "hub.backup"))

    assert ended(started(4, restored, "read"))["dollars"] == outcomes["first"]["dollars"]


@pytest.mark.parametrize("when", ["never", "first", "later"])
def test_the_ledger_balances(outcomes, when):
    assert outcomes[when]["check_ledger"].startswith("the ledger balances from 2026-11-19 00:00")


@pytest.mark.parametrize("when", ["never", "first", "later"])
def test_every_page_is_shown(outcomes, when):
    statuses = outcomes[when]["pages"]

    assert len(statuses) > len(PAGES) + len(PARTS) + 5
    assert {page: status for page, status in statuses.items() if status != 200} == {}
