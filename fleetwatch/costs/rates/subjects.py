"""What a rate can be for: one GPU, a node, a pool, or a GPU model (of one class or region of nodes,
or of all).
"""

from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from django.db.models import QuerySet

from fleetwatch.costs.models import NodePlace, Rate
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.lib.refusal import RefusedFieldError

# before any GPU that FleetWatch can meet: "from the beginning"
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
KINDS = {"gpu": "GPU", "node": "node", "pool": "pool", "gpu_model": "GPU model"}
# of a Rate: exactly one of KINDS; class and region narrow a model's rate to such nodes
FIELDS = (*KINDS, "node_class", "region")
LONGEST_NAME = 63


class RateError(RefusedFieldError):
    """A rate that can't be set."""


def rates_like(rate: Rate) -> QuerySet[Rate]:
    """The rates of its subject, and nobody else's."""
    named = {name: getattr(rate, name) for name in FIELDS}
    return Rate.objects.filter(**{name: what for name, what in named.items() if what is not None})


def subject_name(rate: Rate) -> str:
    """For people: "GPU GPU-1a2b", "node gpu-07", "pool training", "H100 SXM, spot,
    us-east-1".
    """
    if rate.gpu is not None:
        return f"GPU {rate.gpu.uuid}"
    if rate.node is not None:
        return f"node {rate.node.name}"
    if rate.gpu_model is None:
        return f"pool {rate.pool}"
    narrowed = (rate.node_class.replace("_", " "), rate.region)
    return ", ".join([rate.gpu_model.name, *(text for text in narrowed if text)])


def doubt(rate: Rate) -> str:
    """What makes a rate look like a slip of the pen, as a sentence; "" = nothing.

    It may be right: GPUs may come later.
    """
    model = rate.gpu_model
    if model is not None and not (model.gpus.exists() or model.slices.exists()):
        return f"No GPU of the model {model.name} is known."
    if rate.pool and not NodePlace.objects.filter(pool=rate.pool).exists():
        return f"No node of the pool {rate.pool} is known."
    return ""


def find(kind: str, name: str) -> dict[str, Any]:
    """As a field of a Rate what is of that kind (gpu, node, pool, gpu_model) and name (UUID, name,
    name, name).

    Raises RateError where nothing bears the name. A pool need not have nodes yet.
    """
    thing: Any = name if kind == "pool" else _stored(kind, name)
    if thing is None:
        meant = _meant(name) if kind == "gpu_model" else ""
        raise RateError(f"There is no {KINDS[kind]} {name[:100]!r}.{meant}", field=kind)
    return {kind: thing}


def _stored(kind: str, name: str) -> Any:
    if kind == "gpu":
        # of its rows with several nodes the first: a rate of its own goes with it wherever it is
        return GPU.objects.filter(uuid=name).order_by("pk").first()
    return (Node if kind == "node" else GPUModel).objects.filter(name=name).first()


def _meant(name: str) -> str:
    """The GPU model whose name is most like it, as a question; "" where none is much like it."""
    models = GPUModel.objects.order_by("name").values_list("name", flat=True)
    by_text = {model.casefold(): model for model in models}
    close = get_close_matches(name[:100].casefold(), by_text, n=1)
    return "".join(f" Did you mean {by_text[text]!r}?" for text in close)
