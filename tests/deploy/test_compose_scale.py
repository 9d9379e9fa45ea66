"""docker-compose.scale.yml lies over docker-compose.yml: what it names is there, in both."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


class Loader(yaml.SafeLoader):
    """Knows Compose's own tags."""


Loader.add_constructor("!reset", lambda loader, node: loader.construct_sequence(node))


def services(name: str) -> dict[str, dict]:
    return yaml.load((ROOT / name).read_text(), Loader)["services"]


BELOW, ABOVE = services("docker-compose.yml"), services("docker-compose.scale.yml")


def test_the_balancer_takes_the_address_that_the_web_container_has_alone():
    assert ABOVE["balancer"]["ports"] == BELOW["web"]["ports"]
    assert ABOVE["web"]["ports"] == []


def test_what_is_more_than_once_is_what_may_be():
    assert {name for name, each in ABOVE.items() if each.get("scale", 1) > 1} == {
        "web",
        "worker",
        "beat",
    }


def test_the_replica_is_of_the_same_postgres_and_pages_read_it():
    assert ABOVE["replica"]["image"] == BELOW["postgres"]["image"]
    address = ABOVE["web"]["environment"]["FLEETWATCH_REPLICA_URL"]
    assert address == BELOW["web"]["environment"]["DATABASE_URL"].replace("@postgres", "@replica")


def test_each_file_that_a_container_mounts_is_there():
    mounted = [
        volume.split(":")[0]
        for each in ABOVE.values()
        for volume in each.get("volumes", ())
        if volume.startswith("./")
    ]
    assert mounted == [
        "./deploy/scale/pg_hba.conf",
        "./deploy/scale/replica.sh",
        "./deploy/scale/haproxy.cfg",
    ]
    assert all((ROOT / path).is_file() for path in mounted)
