"""Some GPUs of a large fleet are shared: a second job of somebody else holds half of them. Pure."""

import random
from dataclasses import replace

from agent import wire
from agent.sources.simulated.teams import TEAMS

SHARED = 0.25  # of services and notebooks
KINDS = ("service", "interactive")


def shared(batch: wire.Batch, seed: int) -> wire.Batch:
    """The batch with a guest on the GPUs of some services and notebooks: each is granted half."""
    hosts = [(place, _guest(job, seed)) for place, job in enumerate(batch.jobs) if _has_guest(job)]
    guests = {place: len(batch.jobs) + index for index, (place, _) in enumerate(hosts)}
    allocations = [
        item | {"share": 0.5} if item["job"] in guests else item for item in batch.allocations
    ]
    beside = [item | {"job": guests[item["job"]]} for item in allocations if item["job"] in guests]
    return replace(
        batch,
        jobs=[*batch.jobs, *(guest for _, guest in hosts)],
        allocations=[*allocations, *beside],
    )


def _has_guest(job: wire.Item) -> bool:
    return job["kind"] in KINDS and random.Random(f"{job['key']}/guest").random() < SHARED


def _guest(job: wire.Item, seed: int) -> wire.Item:
    rng = random.Random(f"{seed}/{job['key']}/guest")
    team = rng.choice(list(TEAMS.values()))
    return job | {
        "key": f"{job['key']}-guest",
        "id": f"{job['id']}-guest",
        "user": rng.choice(team.users),
        "account": team.account,
    }
