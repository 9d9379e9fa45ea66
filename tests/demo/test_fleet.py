"""The demo must look like a fleet that people run: these bounds are what a visitor would find odd
beyond.
"""

from collections import Counter

from agent.sources.simulated import parse_spec
from agent.sources.simulated.schedule import jobs_between
from fleetwatch.demo.fleet import nodes

START = 1_794_009_600_000  # 2026-11-07 00:00 UTC
DAYS = 14
END = START + DAYS * 86_400_000


def _held() -> dict[str, Counter[str]]:
    """GPU-hours of the fleet by archetype, team and job size."""
    held: dict[str, Counter[str]] = {"archetype": Counter(), "team": Counter(), "size": Counter()}
    for member in nodes(64):
        for job in jobs_between(parse_spec(member.spec), START, END):
            if job.archetype.is_allocated:
                hours = (
                    (min(job.end_ms, END) - max(job.start_ms, START)) * len(job.gpus) / 3_600_000
                )
                held["archetype"][job.archetype.name] += hours
                held["team"][job.account] += hours
                held["size"][str(len(job.gpus))] += hours
    return held


def test_most_but_not_all_of_the_fleet_is_allocated():
    hours = _held()["archetype"].total()

    assert 0.80 <= hours / (64 * 24 * DAYS) <= 0.92


def test_every_habit_is_there_and_none_is_everything():
    by_archetype = _held()["archetype"]

    assert len(by_archetype) >= 20
    assert max(by_archetype.values()) / by_archetype.total() < 0.25


def test_every_team_has_a_part_and_large_jobs_most_of_it():
    held = _held()

    assert set(held["team"]) == {"nlp", "vision", "speech", "research", "science", "serving"}
    assert min(held["team"].values()) / held["team"].total() > 0.03
    assert held["size"]["8"] + held["size"]["4"] > held["size"]["1"]
