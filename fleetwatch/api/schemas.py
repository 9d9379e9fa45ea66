"""The answers of the read API, as OpenAPI describes them and as they are read from what selectors
answer (answer_types).

Units are in the names; money is a JSON number in dollars, exact to the micro-dollar; a time is ISO
8601 in UTC; null is "not known", never zero.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from ninja import Query, Schema
from pydantic import BaseModel, Field, create_model

from fleetwatch.api.answer_types import (
    At,
    AtOrNone,
    NameOf,
    NameOrNone,
    SlugOrNone,
    TextOrNone,
    Usd,
    UsdOrNone,
    UUIDOrNone,
    fields_of,
    gpu_hours,
    of_fields,
    read_as,
)
from fleetwatch.api.vocabulary import Confidence, Grouping, JobKind, Moment
from fleetwatch.costs.models import Rate
from fleetwatch.diagnosis.causes import title as title_of
from fleetwatch.figures import totals
from fleetwatch.jobs import records
from fleetwatch.ledger.policy import STATES

Facts = dict[str, Any]

# for an operation that asks for one thing by a parameter
MAY_BE_MISSING: Facts = {"responses": {404: {}}}


# Parts of figures are read of dicts, ten to a row: as a Schema each of their fields would be looked
# for in objects, too.
class States(of_fields(dict.fromkeys(STATES, (float, ...)), BaseModel)):  # type: ignore[misc]
    """One figure for each of the nine states."""


class StateMs(of_fields(dict.fromkeys(STATES, (int, ...)), BaseModel)):  # type: ignore[misc]
    """GPU-milliseconds in each of the nine states; they sum to capacity_ms exactly.

    As pages show them, `useful` is without `busy_only_ms` and `stalled` without `waiting_ms`.
    """


class CostUsd(BaseModel):
    """Dollars in total and per state; the states sum to the total to the micro-dollar."""

    total: float
    states: States


class WasteTier(BaseModel):
    gpu_hours: float
    usd: float


class Waste(BaseModel):
    """Wasted time in three tiers. `wasted` is certain + probable; potential is never added to it.

    `wasted` counts unobserved time as useful, `wasted_at_most` as wasted: the truth lies between.
    """

    certain: WasteTier
    probable: WasteTier
    potential: WasteTier
    wasted: WasteTier
    wasted_at_most: WasteTier


class Figures(Schema):
    """GPU time, its dollars and its waste. Ratios are 0 to 1, null without a denominator."""

    capacity_ms: int
    observed_ms: int
    coverage: float | None
    states: StateMs
    cost_usd: CostUsd
    waste: Waste
    unpriced_ms: int
    has_example_rates: bool
    busy_only_ms: int = Field(description="part of useful, of which utilisation alone tells")
    busy_only_usd: Usd = Field(description="its dollars, in no efficiency figure")
    waiting_ms: int = Field(description="part of stalled: services wait, no waste but potential")
    waiting_usd: Usd = Field(description="its dollars")
    occupancy: float | None
    activity: float | None
    useful_share_of_observed: float | None
    wasted_share_of_observed: float | None
    efficiency: float | None
    spend_efficiency: float | None
    usd_per_useful_gpu_hour: UsdOrNone
    energy_j: float | None


# "from" is a word of Python's, so these fields are named by text
_PERIOD: Facts = {
    "from": (datetime, ...),
    "to": (datetime, ...),
    "covered_from": (datetime, ...),
    "covered_to": (datetime, ...),
}


class Period(of_fields(_PERIOD)):  # type: ignore[misc]
    """As asked for, and what of it the figures cover: all up to now."""


_PERIOD_QUERY: Facts = {
    "from": (Moment | None, None),
    "to": (Moment | None, None),
    "range": (Literal["1h", "6h", "24h", "7d", "30d", "MTD", "last-month"] | None, None),
}
PeriodQuery: Any = create_model("PeriodQuery", __base__=Schema, **_PERIOD_QUERY)


# Postgres can't hold the character 0, so nothing is called so
NameGiven = Annotated[str, Field(max_length=400, pattern="^[^\\x00]*$")]
Name = NameGiven | None

# as the pages' filter
SeveralStates = (
    Annotated[
        str,
        Field(
            max_length=200,
            pattern="^(?:{0})(?:,(?:{0}))*$".format("|".join(STATES)),
            description="time in this state alone, or in several, with commas: idle,stalled",
        ),
    ]
    | None
)


def states_of(named: str | None) -> tuple[str, ...] | None:
    """The states that a parameter names; None = all."""
    return None if named is None else tuple(named.split(","))


class Filter(Schema):
    """What is looked at; all of it without.

    "" is what no job held, "(none)" and "(unmapped)" jobs without one, by the reason. Kind, cluster
    and label are jobs': a label is "name=value", or a name that has any value.
    """

    node: Name = None
    user: Name = None
    team: Name = None
    project: Name = None
    cost_centre: Name = None
    gpu_model: Name = None
    kind: JobKind | None = None
    cluster: Name = None
    label: Name = None
    state: SeveralStates = None

    def scope(self, **narrower: Any) -> totals.Scope:
        """What figures are narrowed to."""
        named = self.dict(exclude={"state"})
        return totals.Scope(**named, states=states_of(self.state), **narrower)


class Page(Schema):
    """One page of a list.

    A cursor is the next_cursor of the page before; it keeps the period of page one.
    """

    limit: int = Field(100, ge=1, le=1000)
    cursor: str = Field("", max_length=200, json_schema_extra={"pattern": "^[A-Za-z0-9_-]*$"})


Row = TypeVar("Row")


class Listed(Schema, Generic[Row]):
    """One page of a list."""

    rows: list[Row]
    next_cursor: str | None


class ListedInPeriod(Listed[Row], Period, Generic[Row]):
    """One page of a list of a period."""


class TotalsOfPeriod(Period):
    totals: Figures


class ListedWithTotals(Listed[Row], TotalsOfPeriod, Generic[Row]):
    """One page of a list of a period, with the figures of all its rows."""


PeriodAsked = Query[PeriodQuery]
Paging = Query[Page]


class SpendingNow(fields_of(totals.SpendingNow)):  # type: ignore[misc]
    judged_gpus: int = Field(
        description=(
            "GPUs posted for the newest minutes: of the others nobody knows yet who holds them"
        )
    )
    unobserved_gpus: int = Field(
        description=(
            "Judged GPUs that nobody observes now (a silent node): neither allocated nor free"
        )
    )


class Summary(Period, Figures):
    """What was asked for of the fleet in the period, and what all of it costs at this moment."""

    now: SpendingNow


class WasteRow(Figures):
    key: str
    label: str


class WastePage(ListedWithTotals[WasteRow]):
    """Rows by wasted dollars.

    The rows of all pages sum to `totals`, dollars to the micro-dollar.
    """

    group_by: Grouping


class Cause(Schema):
    """Why the job wastes: the cause of most of its wasted time; "undetermined" where nothing was
    diagnosed.

    `evidence` has a sentence per sign of the rule, for one job alone.
    """

    key: str
    title: Annotated[str, read_as(title_of)] = Field(alias="key")
    confidence: Confidence | None
    evidence: list[str]


class JobRow(Figures):
    key: str
    name: str
    scheduler: str
    cluster: str
    id: str = Field(alias="external_id")
    user: str
    account: str
    team: SlugOrNone
    kind: JobKind
    state: str
    submit_at: AtOrNone = Field(alias="submit_ms")
    start_at: AtOrNone = Field(alias="start_ms")
    end_at: AtOrNone = Field(alias="end_ms")
    wait_s: float | None
    partition: str | None
    qos: str | None
    restarts: int
    labels: Facts
    gpu_hours: Annotated[
        States, read_as(lambda states: {name: gpu_hours(ms) for name, ms in states.items()})
    ] = Field(alias="states")
    primary_cause: Cause
    savings_gpu_hours: list[float] | None
    savings_usd: list[float] | None


class QueueRow(Schema):
    """What waits in a cluster's whole queue, as an agent tells it (partition null), or in one of
    its partitions, as accounting told last.

    `partition` is "" for jobs of which none is told; null figures are not known.
    """

    cluster: str
    partition: str | None
    pending_gpus: int | None = Field(alias="gpus")
    pending_jobs: int | None = Field(alias="jobs")
    oldest_submit_at: AtOrNone = Field(alias="since_ms")
    told_by: Literal["agent", "accounting"]
    told_at: AtOrNone = Field(alias="told_ms")


class JobPage(ListedWithTotals[JobRow]):
    """Jobs with GPU time in the period, by wasted dollars; `totals` is of all of them, on every
    page, `queues` of this moment.
    """

    queues: list[QueueRow]


# how a node knows: its processes' environment, its scheduler, an import of accounting, or the right
# to speak for the job's cluster
Voice = Annotated[
    Literal["claim", "books", "import", "cluster", "cluster_import"],
    read_as(lambda voice: records.Voice(voice).name.lower()),
]


class GPUShare(Figures):
    uuid: str = Field(alias="key")
    label: str


class Contradiction(Schema):
    """A fact that a node has otherwise than it is believed: shown, not taken.

    `node` is null where none is known.
    """

    node: TextOrNone
    by: Voice = Field(alias="voice")
    fact: Literal["user", "account", "kind"]
    value: str


class JobChange(Schema):
    """What a node newly said of the job, or of one that shares its key; `refused` names those facts
    that were not taken.
    """

    key: str = Field(alias="job.own_key")
    at: datetime
    node: NameOrNone
    by: Voice = Field(alias="voice")
    facts: Facts
    refused: list[str]


class Namesake(Schema):
    """Another job of the same key: nodes name another owner of it, and their GPU time is charged to
    him.
    """

    key: str = Field(alias="own_key")
    user: str
    account: str


class JobDetail(Period, JobRow):
    """One job in the period, each GPU that it held, who says otherwise whose it is, and its newest
    changes, the newest first.
    """

    gpus: list[GPUShare]
    namesakes: list[Namesake]
    contradictions: list[Contradiction]
    history: list[JobChange]


class JobSource(Schema):
    """Whether a source of jobs of the node (slurm, kubernetes, docker, process) answers; while not,
    nobody knows who holds its GPUs.
    """

    kind: str
    ok: bool = Field(alias="is_ok")
    reported_at: At = Field(alias="reported_ms")
    silent_since: AtOrNone = Field(alias="silent_ms")
    why: str


class Drained(Schema):
    """The node takes no new jobs; the reason as its scheduler says it."""

    since: At = Field(alias="since_ms")
    reason: str


class NodeRow(Figures):
    name: str
    labels: Facts
    window_s: int
    last_at: AtOrNone = Field(alias="last_ms")
    last_received_at: datetime | None
    agent: Facts
    sources: list[JobSource]
    drained: Drained | None
    gpu_count: int


class NodePage(ListedWithTotals[NodeRow]):
    pass


class Instance(Schema):
    uuid: str
    mig_profile: str


class GPURow(Figures):
    """A GPU, its MIG instances in it.

    Asked for by its own UUID an instance has a parent_uuid; its figures are a part of the parent's.
    """

    uuid: str
    node: NameOf
    index: int | None
    gpu_model: NameOrNone = Field(alias="model")
    driver_model_name: str = Field(alias="model_name")
    memory_total_bytes: int | None
    power_limit_w: float | None
    sm_count: int | None
    parent_uuid: UUIDOrNone = Field(alias="parent")
    mig_profile: str
    instances: list[Instance]
    persistence: bool | None
    unread: Facts
    first_at: AtOrNone = Field(alias="first_ms")
    last_at: AtOrNone = Field(alias="newest_ms")
    retired_at: AtOrNone = Field(alias="retired_ms")


class GPUPage(ListedWithTotals[GPURow]):
    pass


class RateSpan(Schema):
    usd_per_gpu_hour: float
    is_example: bool
    valid_from: datetime
    valid_to: datetime | None


class StayRow(Schema):
    """Where a GPU was from when to when; not believed: that node says so, but another one observed
    the GPU.
    """

    node: str
    start: At = Field(alias="first_ms")
    end: At = Field(alias="last_ms")
    is_believed: bool


class IdlePower(Schema):
    """What a GPU draws at idle: of its model, learned from its own readings between first and last,
    or set by an admin.
    """

    watts: float
    source: Literal["model", "learned", "set"]
    readings: int
    first_at: AtOrNone = Field(alias="first_ms")
    last_at: AtOrNone = Field(alias="last_ms")


class GPUDetail(Period, GPURow):
    """One GPU in the period, where it was from when to when, and what it cost per hour from when to
    when.
    """

    idle_power: IdlePower | None
    rates: list[RateSpan]
    stays: list[StayRow]


class Series(Schema):
    """Points at start_ms[i]; values[metric][i] is null where nothing was read."""

    uuid: str
    start_ms: list[int]
    step_s: int
    values: dict[str, list[float | None]]


class RateRow(Schema):
    """A rate as it was set; usd_per_gpu_hour is null in another currency than USD."""

    id: int
    usd_per_gpu_hour: float | None
    price_per_gpu_hour: float
    currency: str
    is_example: bool
    valid_from: datetime
    valid_to: datetime | None
    gpu_model: NameOrNone
    node: NameOrNone
    gpu: UUIDOrNone
    pool: TextOrNone
    node_class: TextOrNone
    region: TextOrNone
    pricing_class: TextOrNone
    source: str
    source_date: date | None
    components: list[dict[str, str]]

    @staticmethod
    def resolve_usd_per_gpu_hour(rate: Rate) -> Decimal | None:
        return rate.price_per_gpu_hour if rate.currency == "USD" else None


class RatePage(Listed[RateRow]):
    pass


class MappingRow(Schema):
    """A mapping rule as it was written; null = any, or not said. `place` 1 is asked first."""

    id: int
    place: int
    priority: int
    user: TextOrNone
    account: TextOrNone
    namespace: TextOrNone
    partition: TextOrNone
    label: TextOrNone
    label_value: TextOrNone
    team: SlugOrNone
    project: TextOrNone
    cost_centre: TextOrNone
    valid_from: datetime
    valid_to: datetime | None
    note: str


class MappingPage(Listed[MappingRow]):
    pass
