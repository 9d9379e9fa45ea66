"""The epilog's line in the output of real jobs."""

import re

from tests.slurm_lab.site import Site

LINE = re.compile(r"FleetWatch: job \d+: \d+\.\d GPU-minutes, .*")
OUTPUTS = {
    "two": "slurm-{}.out",
    "short": "short-{}.out",
    "idle": "slurm-{}.out",
    "array": "slurm-{}_3.out",
    "hetero": "slurm-{}.out",
}


def test_each_jobs_output_ends_with_one_line_on_what_it_made_of_its_gpus(
    site: Site, jobs: dict[str, int]
) -> None:
    outputs = {
        kind: site.lab.path / "jobs" / name.format(jobs[kind]) for kind, name in OUTPUTS.items()
    }

    def lines(kind: str) -> list[str]:
        return [
            line for line in outputs[kind].read_text().splitlines() if line.startswith("FleetWatch")
        ]

    site.lab.wait_for(
        lambda: all(lines(kind) for kind in outputs), "line in every output", seconds=130
    )

    assert {kind: len(lines(kind)) for kind in outputs} == dict.fromkeys(outputs, 1)
    partial = [kind for kind in outputs if LINE.fullmatch(lines(kind)[0]) is None]
    assert [(lines(kind), site.job(jobs[kind])) for kind in partial] == []
