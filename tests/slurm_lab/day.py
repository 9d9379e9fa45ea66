"""A day on the node, in a minute and a half: jobs of every kind that a scheduler's books and a
meter may disagree about.
"""

import time

from tests.slurm_lab.books import accounted, runs
from tests.slurm_lab.site import Site

WINDOW_S = 10
CREDENTIAL_S = (
    2  # slurmd refuses a credential of the second, or before, in which the job was killed
)
MEMORY = 300_000_000  # bytes that job "two" fills
HOSTILE = "x|1+1|JobState=FAILED StartTime=2020-01-01T00:00:00"


def live(site: Site) -> dict[str, int]:
    """The jobs' numbers by what they are, all over and told to the hub."""
    lab = site.lab
    gpu = ("--gres=gpu:1",)
    jobs = {"array": lab.sbatch(*gpu, "-J", "tasks", "--array=0-7", script=_burn(site, 10))}
    lab.wait_for(lambda: set(lab.states().values()) == {"COMPLETED"}, "finished array")
    jobs["hetero"] = _heterogeneous(site)
    jobs["cancelled"] = lab.sbatch(*gpu, "-J", "cancelled", script=_burn(site, 300))
    jobs["requeued"] = lab.sbatch(*gpu, "-J", "requeued", script=_burn(site, 12))
    jobs["idle"] = lab.sbatch(*gpu, "-J", "idle", script="sleep 14")
    lab.wait_for(lambda: lab.states().get(str(jobs["requeued"])) == "RUNNING", "job to be requeued")
    lab.wait_for(
        lambda: lab.states().get(str(jobs["cancelled"])) == "RUNNING", "job to be cancelled"
    )
    time.sleep(7)  # a job's life, not a wait for anybody
    lab.run("scontrol", "requeue", str(jobs["requeued"]))
    lab.run("scancel", str(jobs["cancelled"]))
    jobs["two"] = lab.sbatch(
        "--gres=gpu:2", "-J", "two", user="ann", script=_burn(site, 22, MEMORY)
    )
    jobs["short"] = lab.sbatch(
        *gpu, "-J", "short", "-o", "%x-%j.out", user="ann", script=_burn(site, 8)
    )
    jobs["unreadable"] = lab.sbatch(*gpu, "-J", "two\nlines", script=_burn(site, 22))
    lab.wait_for(lambda: lab.states().get(str(jobs["requeued"])) == "PENDING", "requeued job")
    time.sleep(CREDENTIAL_S)
    lab.run("scontrol", "update", f"jobid={jobs['requeued']}", "StartTime=now")
    over = {"COMPLETED", "CANCELLED"}
    lab.wait_for(lambda: set(lab.states().values()) <= over, "finished jobs", seconds=90)
    lab.wait_for(lambda: accounted(lab), "accounting")
    lab.wait_for(
        lambda: all(site.has_ended(number) for number in runs(lab)),
        "word of every end on the hub",
        seconds=90,
    )
    site.stop_agent()
    site.settle()
    return jobs


def _burn(site: Site, seconds: int, memory: int = 0) -> str:
    return f"/usr/bin/python3 {site.lab.path}/jobs/burn.py burn {seconds} {memory}"


def _heterogeneous(site: Site) -> int:
    """A job of two components, the second without a GPU and on another node; its name is made to
    deceive.
    """
    script = site.lab.path / "jobs" / "hetero.sh"
    script.write_text(
        f"#!/bin/sh\n#SBATCH --gres=gpu:1\n#SBATCH hetjob\n#SBATCH -p cpu\n{_burn(site, 18)}\n"
    )
    script.chmod(0o755)
    return site.lab.sbatch("-J", HOSTILE, str(script))
