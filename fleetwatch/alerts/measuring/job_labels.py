"""What scopes, silences and routes match of a job's breach. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from fleetwatch.alerts.measuring.gpu_words import model_of
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job


class Card(Protocol):
    """A GPU, as far as it matters here."""

    @property
    def node(self) -> str: ...
    @property
    def model(self) -> str: ...


def job_labels(job: Job, gpus: Iterable[Card]) -> Mapping[str, tuple[str, ...]]:
    """The job's labels (label.x) beside what it is, whose, and where; what is not known is not
    there.
    """
    cards = list(gpus)
    values = {
        "job": {job.key},
        "name": {job.name},
        "user": {job.user},
        "team": {job.team.slug if job.team else ""},
        "scheduler": {job.scheduler},
        "cluster": {job.cluster},
        "kind": {job.kind},
        "node": {card.node for card in cards},
        "model": {card.model for card in cards},
        **{f"label.{name}": {str(value)} for name, value in job.labels.items()},
    }
    return {
        name: tuple(sorted(several - {""})) for name, several in values.items() if several - {""}
    }


class NamedCard(NamedTuple):
    """What labels say of a GPU."""

    node: str
    model: str


def cards_of(gpus: Mapping[int, GPU]) -> dict[int, NamedCard]:
    """By id."""
    return {pk: NamedCard(gpu.node.name, model_of(gpu)) for pk, gpu in gpus.items()}


def owner_of(job: Job) -> str:
    """Its user and team, as owner_words() has them."""
    team = job.team
    return owner_words(job.user, team.slug if team else "")


def owner_words(user: str, team: str) -> str:
    """User and team, as far as they are known; "" when neither is."""
    return f"{user} ({team})" if user and team else user or team
