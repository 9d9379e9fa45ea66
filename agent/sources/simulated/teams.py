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


@dataclass(frozen=True)
class Mix:
    """How a sort of node is used: its teams by weight, how its GPUs are parted, how much of it nobody asks for."""

    teams: Weights
    partings: Tuple[Tuple[int, ...], ...]
    free: float
    leftover: float


TEAMS = {
    "nlp": Team(
        "nlp", ("amara", "jonas", "wei"),
        {"healthy_llm": 34, "checkpoint_stall": 9, "communication_bound": 7, "healthy_eval": 9, "idle_notebook": 3, "hung": 1.5},
    ),
    "vision": Team(
        "vision", ("priya", "lukas", "noor", "tomas"),
        {"healthy_vision": 20, "data_starved": 20, "data_starved_fast": 6, "healthy_eval": 4, "idle_notebook": 4, "partial_idle": 4},
    ),
    "speech": Team(
        "speech", ("mei", "oskar"),
        {"healthy_eval": 14, "data_starved": 8, "small_batch": 8, "data_starved_fast": 3, "idle_notebook": 4},
    ),
    "research": Team(
        "research", ("ivan", "sofia", "ravi", "chloe", "marek"),
        {"idle_notebook": 22, "allocated_no_process": 9, "small_batch": 14, "partial_idle": 8, "healthy_vision": 14, "healthy_llm": 10},
    ),
    "science": Team(
        "science", ("elena", "hugo"),
        {"no_tensor_cores": 18, "small_batch": 12, "healthy_vision": 6, "allocated_no_process": 2},
    ),
    "serving": Team(
        "serving", ("svc-inference", "svc-search"),
        {"bursty_service": 20, "memory_bound": 14},
    ),
}  # fmt: skip

MIXES = {
    "train": Mix(
        {"nlp": 8, "vision": 2, "speech": 1}, ((8,), (8,), (8,), (4, 4), (4, 2, 2)), free=0.08, leftover=0.01,
    ),
    "research": Mix(
        {"vision": 4, "research": 5, "speech": 2, "science": 3, "nlp": 1},
        ((4, 2, 1, 1), (2, 2, 2, 2), (2, 2, 1, 1, 1, 1), (4, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1, 1, 1)), free=0.14, leftover=0.03,
    ),
    "serve": Mix(
        {"serving": 8, "research": 1}, ((2, 2, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1, 1, 1), (2, 2, 2, 2)), free=0.15, leftover=0.01,
    ),
    "mixed": Mix(
        {"nlp": 4, "vision": 3, "research": 3, "speech": 2, "science": 2, "serving": 3},
        ((4, 4), (4, 2, 1, 1), (2, 2, 2, 2), (2, 2, 1, 1, 1, 1), (1, 1, 1, 1, 1, 1, 1, 1)), free=0.12, leftover=0.02,
    ),
}  # fmt: skip
