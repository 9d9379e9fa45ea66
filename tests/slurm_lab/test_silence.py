"""A controller that is away is said on the hub with its reason."""

from tests.slurm_lab.site import Site

REASON = "Unable to contact slurm controller"  # scontrol's words
SILENT_S = 100.0  # two intervals of the agent, a window, a batch


def test_a_controller_that_is_away_is_said_with_its_reason(
    site: Site, jobs: dict[str, int]
) -> None:
    site.start_agent()
    site.lab.stop_controller()
    try:
        site.lab.wait_for(
            lambda: REASON in (site.slurm()["why"] or ""), "word of the silence", seconds=SILENT_S
        )
    finally:
        site.lab.start_controller()

    assert site.slurm()["ok"] is False
