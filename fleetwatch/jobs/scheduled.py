"""What its scheduler says of a job beyond the GPUs that the hub sees of it. Pure."""

from collections.abc import Mapping
from typing import Any

LONGEST = 9  # digits of a number that is believed

Labels = Mapping[str, Any]


def granted_gpus(labels: Labels) -> int:
    """How many GPUs the job asked for, on all its nodes; 0 where nobody told."""
    return _number(labels.get("requested_gpus"))


def reaches_beyond(labels: Labels, *, gpus: int, nodes: int) -> bool:
    """Whether the job may hold more than these GPUs on that many nodes: by its scheduler's word,
    and always as a part of a heterogeneous job, whose other parts end with it.
    """
    is_wider = granted_gpus(labels) > gpus or _number(labels.get("nodes")) > nodes
    return is_wider or bool(labels.get("het_job"))


def ended_by(external_id: str, labels: Labels) -> str:
    """The id that ends this job alone: of an array's task "4711_7", since each array has a task
    whose own number is that of the whole array.
    """
    array = labels.get("array_job")
    task = labels.get("array_task")
    is_task = _is_number(array) and _is_number(task)
    return f"{array}_{task}" if is_task else external_id


def _number(value: Any) -> int:
    return int(value) if _is_number(value) else 0


def _is_number(value: Any) -> bool:
    is_digits = isinstance(value, str) and value.isascii() and value.isdigit()
    return is_digits and len(value) <= LONGEST
