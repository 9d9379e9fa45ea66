"""What a rate can be for: one GPU, a node, a pool, or a GPU model (of one class or region of nodes,
or of all).
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Self

from django.db.models import QuerySet

from fleetwatch.costs.models import NodePlace, Rate
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.lib.refusal import RefusedFieldError

# before any GPU that FleetWatch can meet: "from the beginning"
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
KINDS = {"gpu": "GPU", "node": "node", "pool": "pool", "gpu_model": "GPU model"}


LONGEST_NAME = 63


class RateError(RefusedFieldError):
    """A rate that can't be set."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Exactly one of gpu, node, pool and gpu_model; class and region narrow a model's rate to such
    nodes.
    """

    gpu: GPU | None = None
    node: Node | None = None
    pool: str = ""
    gpu_model: GPUModel | None = None
    node_class: str = ""
    region: str = ""

    @classmethod
    def of_rate(cls, rate: Rate) -> Self:
        return cls(rate.gpu, rate.node, rate.pool, rate.gpu_model, rate.node_class, rate.region)

    @property
    def fields(self) -> dict[str, Any]:
        """The subject as fields of a Rate."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def rates(self) -> QuerySet[Rate]:
        """The subject's own rates, and nobody else's."""
        named = {name: value for name, value in self.fields.items() if value is not None}
        return Rate.objects.filter(**named)

    @property
    def name(self) -> str:
        """For people: "GPU GPU-1a2b", "node gpu-07", "pool training", "H100 SXM, spot,
        us-east-1".
        """
        if self.gpu is not None:
            return f"GPU {self.gpu.uuid}"
        if self.node is not None:
            return f"node {self.node.name}"
        if self.gpu_model is None:
            return f"pool {self.pool}"
        narrowed = (self.node_class.replace("_", " "), self.region)
        return ", ".join([self.gpu_model.name, *(text for text in narrowed if text)])

    @property
    def doubt(self) -> str:
        """What makes its rate look like a slip of the pen, as a sentence; "" = nothing.

        It may be right: GPUs may come later.
        """
        if self.gpu_model is not None and not (
            self.gpu_model.gpus.exists() or self.gpu_model.slices.exists()
        ):
            return f"No GPU of the model {self.gpu_model.name} is known."
        if self.pool and not NodePlace.objects.filter(pool=self.pool).exists():
            return f"No node of the pool {self.pool} is known."
        return ""


def find(kind: str, name: str, *, node_class: str = "", region: str = "") -> Subject:
    """The subject of that kind (gpu, node, pool, gpu_model) and name (UUID, name, name, name).

    Raises RateError where nothing bears the name. A pool need not have nodes yet.
    """
    thing: Any = name if kind == "pool" else _stored(kind, name)
    if thing is None:
        meant = _meant(name) if kind == "gpu_model" else ""
        raise RateError(f"There is no {KINDS[kind]} {name[:100]!r}.{meant}", field=kind)
    return Subject(**{kind: thing}, node_class=node_class, region=region)


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
