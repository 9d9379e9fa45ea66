"""The demo's fleet: which simulated nodes there are. The live agents and the history both read it
from here.

Each node is one real agent process (29 MB, 0.3 % of a core): what a visitor
sees arriving is what a real host would send, and one agent dying shows as one silent node.
"""

from dataclasses import dataclass

GPUS_PER_NODE = 8
GPUS = 64
DAYS = 14
CLUSTER = "aurora"


@dataclass(frozen=True, slots=True)
class DemoNode:
    """One node: its name, the agent's `simulated:` specification, and its labels."""

    name: str
    spec: str
    labels: dict[str, str]

    @property
    def source(self) -> str:
        """What the agent takes as --source."""
        return f"simulated:{self.spec}"


# (GPU model, how the node is used): repeated, with other seeds, for a larger fleet.
PATTERN = (
    ("H100", "train"),
    ("H100", "research"),
    ("A100", "research"),
    ("H100", "train"),
    ("L40S", "serve"),
    ("A100", "mixed"),
    ("H100", "mixed"),
    ("A100", "train"),
)
FAULTY_NODE = 5
FAULTY_GPU = 3
RECURRING_NODE = 6
# The simulated scheduler numbers the jobs of 128 nodes apart
# (agent.sources.simulated.schedule.NODES): a larger fleet has several.
NODES_PER_CLUSTER = 120


def nodes(gpus: int = GPUS) -> list[DemoNode]:
    """As many nodes of eight GPUs as hold that many GPUs (at least one)."""
    return [_node(number) for number in range(max(1, -(-gpus // GPUS_PER_NODE)))]


def _node(number: int) -> DemoNode:
    model, mix = PATTERN[number % len(PATTERN)]
    cluster = (
        CLUSTER if number < NODES_PER_CLUSTER else f"{CLUSTER}-{number // NODES_PER_CLUSTER + 1}"
    )
    spec = f"{GPUS_PER_NODE}x{model},seed={number + 1},mix={mix},cluster={cluster}"
    spec += ",outages=yes,queue=yes"
    if number == FAULTY_NODE:
        spec += f",faulty={FAULTY_GPU}"
    if number == RECURRING_NODE:
        spec += ",recurring=yes"
    return DemoNode(
        f"{model.lower()}-{number + 1:02d}", spec, {"pool": mix, "rack": f"r{number // 4 + 1}"}
    )
