"""Host memory of a job is what its own control group holds."""

from tests.slurm_lab.day import MEMORY
from tests.slurm_lab.site import Site

MOST = """
from fleetwatch.dashboard.job_memory import most_memory
from fleetwatch.jobs.models import Job
use = most_memory(Job.objects.get(key="slurm/della/{number}"))
print(use and int(use.most_bytes))
"""
BESIDE = 100_000_000  # bytes of Python, the shell and Slurm's step at most


def test_a_jobs_most_memory_is_what_it_filled(site: Site, jobs: dict[str, int]) -> None:
    most = int(site.ask(MOST.format(number=jobs["two"])))

    assert MEMORY <= most <= MEMORY + BESIDE


def test_a_job_beside_it_has_none_of_that_memory(site: Site, jobs: dict[str, int]) -> None:
    most = int(site.ask(MOST.format(number=jobs["unreadable"])))

    assert most <= BESIDE
