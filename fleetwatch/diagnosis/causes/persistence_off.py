"""The driver says that persistence mode is off."""

from fleetwatch.diagnosis.cause import ADMIN, MINUTES, Cause, Machine, Step
from fleetwatch.diagnosis.shell import Place, word

ENTRIES = """
SELECT spent.node_id, spent.gpu_id, '', spent.start, 'persistence_off', sum(spent.gpu_ms), 0, 0
FROM spent
JOIN inventory_gpu AS gpu ON gpu.id = spent.gpu_id
WHERE NOT gpu.persistence AND spent.state <> 'unobserved'
GROUP BY spent.node_id, spent.gpu_id, spent.start
"""


def switched_on(place: Place) -> str:
    """The command that switches it on, until the next reboot."""
    return f"ssh -- {word(place.node)} nvidia-smi -pm 1" if place.node else ""


CAUSE = Cause(
    code="persistence_off",
    title="Persistence mode off",
    sentence=(
        "The driver unloads between jobs: an idle GPU may read as busy and draw power, and the"
        " first job waits for it to start."
    ),
    looks="The driver says that persistence mode is off.",
    sensors="the driver's word on persistence mode",
    fixes=(
        Step(
            "Keep the driver loaded, also after a reboot.",
            "systemctl enable --now nvidia-persistenced",
        ),
        Step("Or until the next reboot.", "nvidia-smi -pm 1"),
    ),
    effort=MINUTES,
    range_words=(
        "seconds at each job's start, and readings that can be trusted; FleetWatch counts such"
        " phantom load as no activity"
    ),
    who=ADMIN,
    command=switched_on,
    command_of=1,
    machine=Machine(
        curve="GPUs with it off",
        worth="GPU time with it off",
        entries=ENTRIES,
        past="Had persistence mode off",
        past_sentence=(
            "The driver unloaded between jobs: an idle GPU may have read as busy and drawn power,"
            " and the first job waited for it to start."
        ),
    ),
)
