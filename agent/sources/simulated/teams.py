"""Who works on the simulated fleet, on which nodes, and with which habits: data only."""

from dataclasses import dataclass
from typing import Dict, Tuple

Weights = Dict[str, float]  # name -> weight


@dataclass(frozen=True)
class Team:
    """An account of the scheduler; `habits` weighs the archetypes of its jobs."""

    account: str
    users: Tuple[str, ...]  # the first submits most
    habits: Weights

    @property
    def weights(self) -> Weights:
        """Of its users."""
        return {user: 1 / rank for rank, user in enumerate(self.users, 1)}


@dataclass(frozen=True)
class Mix:
    """How a sort of node is used: its teams by weight, how its GPUs are parted, how much of it
    nobody asks for.
    """

    teams: Weights
    partings: Tuple[Tuple[int, ...], ...]
    free: float
    leftover: float


TEAMS = {
    "nlp": Team(
        "nlp", ("amara", "jonas", "wei"),
        {
            "healthy_llm": 40, "checkpoint_stall": 9, "communication_bound": 9, "healthy_eval": 6,
            "idle_notebook": 3, "hung": 4,
            "straggler": 4, "throttled": 3, "partial_idle": 4, "allocated_no_process": 5,
            "idle_script": 4,
        },
    ),
    "vision": Team(
        "vision", ("priya", "lukas", "noor", "tomas"),
        {
            "healthy_vision": 16, "data_starved_cpu": 12, "data_starved_io": 12,
            "data_starved_single_core": 6,
            "data_starved_fast": 8, "healthy_eval": 3, "idle_notebook": 8, "partial_idle": 9,
            "allocated_no_process": 2, "h2d_transfer": 4,
        },
    ),
    "speech": Team(
        "speech", ("mei", "oskar"),
        {"healthy_eval": 8, "data_starved_io": 8, "data_starved_cpu": 4, "small_batch": 20,
        "data_starved_fast": 4, "idle_notebook": 8},
    ),
    "research": Team(
        "research", ("ivan", "sofia", "ravi", "chloe", "marek"),
        {
            "idle_notebook": 32, "allocated_no_process": 16, "small_batch": 24, "partial_idle": 10,
            "healthy_vision": 8, "healthy_llm": 6,
            "idle_script": 10,
        },
    ),
    "science": Team(
        "science", ("elena", "hugo"),
        {"no_tensor_cores": 16, "small_batch": 24, "healthy_vision": 4, "hpc_fp64": 14,
        "allocated_no_process": 5},
    ),
    "serving": Team(
        "serving", ("svc-inference", "svc-search"),
        {"bursty_service": 20, "memory_bound": 8},
    ),
}  # fmt: skip

# How eight GPUs are parted.
HALVES = (4, 4)
QUARTERS = (2, 2, 2, 2)
EIGHTHS = (1,) * 8
HALF_OF_PAIRS = (2, 2, 1, 1, 1, 1)

MIXES = {
    "train": Mix(
        {"nlp": 8, "vision": 2, "speech": 1}, ((8,), (8,), (8,), HALVES, (4, 2, 2)), free=0.12,
        leftover=0.01,
    ),
    "research": Mix(
        {"vision": 4, "research": 5, "speech": 2, "science": 3, "nlp": 1},
        ((4, 2, 1, 1), QUARTERS, HALF_OF_PAIRS, (4, 1, 1, 1, 1), EIGHTHS),
        free=0.16, leftover=0.04,
    ),
    "serve": Mix(
        {"serving": 5, "research": 2, "vision": 2},
        (HALF_OF_PAIRS, EIGHTHS, QUARTERS), free=0.30, leftover=0.01,
    ),
    "mixed": Mix(
        {"nlp": 4, "vision": 3, "research": 3, "speech": 2, "science": 2, "serving": 3},
        (HALVES, (4, 2, 1, 1), QUARTERS, HALF_OF_PAIRS, EIGHTHS),
        free=0.15, leftover=0.03,
    ),
}  # fmt: skip
