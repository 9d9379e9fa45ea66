"""A pytest plugin, `-p tests.citus.plugin`: the database of any tests is that of a hub whose large
tables are distributed over three database nodes.
"""

import os
from collections.abc import Generator
from typing import Any

import pytest

from tests.citus.cluster import Cluster
from tests.servers import hands_tests_out

CLUSTER = pytest.StashKey[Cluster]()
ONE_NODE = pytest.StashKey[str]()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Within tests.servers' own, whose Redis stays, and whose Postgres is one node beside three."""
    if not hands_tests_out(early_config):
        cluster = Cluster()
        early_config.add_cleanup(cluster.stop)
        early_config.stash[CLUSTER] = cluster
        early_config.stash[ONE_NODE] = os.environ["DATABASE_URL"]
        os.environ["DATABASE_URL"] = cluster.url
        _distribute_what_is_made(cluster)
    return (yield)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Cluster:
    """The three database nodes."""
    return pytestconfig.stash[CLUSTER]


@pytest.fixture(scope="session")
def one_node(pytestconfig: pytest.Config) -> str:
    """The address of an empty database of a Postgres without Citus."""
    return pytestconfig.stash[ONE_NODE]


def _distribute_what_is_made(cluster: Cluster) -> None:
    from django.db.backends.postgresql.creation import DatabaseCreation

    migrated = DatabaseCreation.create_test_db

    def made(
        creation: DatabaseCreation, cursor: Any, parameters: Any, keepdb: bool = False
    ) -> None:
        cluster.make(creation._get_test_db_name())

    def distributed(creation: DatabaseCreation, *arguments: Any, **keywords: Any) -> str:
        from fleetwatch.stack import distribution

        name = migrated(creation, *arguments, **keywords)
        distribution.distribute()
        return name

    DatabaseCreation._execute_create_test_db = made
    DatabaseCreation.create_test_db = distributed
    # it goes with its cluster, whose own sessions are in it until then
    DatabaseCreation._destroy_test_db = lambda *_: None
