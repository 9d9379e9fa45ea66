"""The lab, a hub and the agent from source beside it: one of each for all stories."""

from collections.abc import Iterator

import pytest

from tests.slurm_lab import day
from tests.slurm_lab.lab import Lab, running_lab
from tests.slurm_lab.site import Site, running_site


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with running_lab() as lab:
        yield lab


@pytest.fixture(scope="session")
def site(lab: Lab) -> Iterator[Site]:
    with running_site(lab) as site:
        yield site


@pytest.fixture(scope="session")
def jobs(site: Site) -> dict[str, int]:
    return day.live(site)
