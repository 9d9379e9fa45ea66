"""Where are the idle, busy and broken GPUs? As a map over time, as squares, or as a table of nodes
that open.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from urllib.parse import urlencode

from django.http import HttpRequest

from fleetwatch.accounts.visibility import visible_teams
from fleetwatch.costs.mapping import attribution
from fleetwatch.dashboard import squares
from fleetwatch.dashboard.broken_marks import BrokenMark, broken_marks, by_node
from fleetwatch.dashboard.choices import chosen, first_page
from fleetwatch.dashboard.drawing import maps
from fleetwatch.dashboard.drawing.fleet_chart import MAX_GPUS
from fleetwatch.dashboard.drawing.picture import MOST_GPUS
from fleetwatch.dashboard.node_lines import (
    BROKEN,
    DEFAULT_SORT,
    ONLY,
    SORTS,
    FleetFigures,
    NodeFigures,
    fleet_figures,
    page_of,
)
from fleetwatch.dashboard.pages import Pager
from fleetwatch.dashboard.parameters import NO_JOB, PERIOD, SUBJECTS, filtered
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.recorded_part import record_of
from fleetwatch.dashboard.selectors import GPULine, gpu_lines, physical_gpus
from fleetwatch.dashboard.showing import Context, existing, shows
from fleetwatch.diagnosis.findings.inbox import agreed_by, agreed_usd
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.posted import summed_until
from fleetwatch.figures.selectors import Scope
from fleetwatch.figures.totals import EVERYTHING
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import MINUTE_MS
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.selectors import Drain

VIEWS = {"heatmap": "Map", "grid": "Grid", "table": "Table"}
CHOICES = {"views": VIEWS, "sorts": SORTS, "onlys": ONLY, "metrics": maps.METRICS.values()}
OF_MACHINES = {"node", "gpu_model"}  # filters that name no jobs: all time there is meant
TABLE_GPUS = 400  # on a page of the table: 50 nodes of eight
MAX_OPEN = 10  # nodes whose GPUs are listed
MAX_TOLD = 3  # jobs of a cell


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node of the table, since when and why it takes no jobs (None = it does), since when it is
    silent (None = it is not), and its GPUs where it is open.
    """

    figures: NodeFigures
    drain: Drain | None
    silent_ms: int | None
    gpus: list[GPULine]
    toggled: str  # the nodes that are open with this one closed, or open


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for: a view, what cells show, the order, which nodes alone ("" = all),
    after which of them the page begins, and which are open.
    """

    view: str
    metric: maps.MapMetric
    sort: str
    only: str
    after: str
    opened: list[str]

    @property
    def chart_parameters(self) -> str:
        """What the map's chart is asked with beside the period and filters."""
        asked = {
            **{"metric": self.metric.name, "sort": self.sort},
            **{"only": self.only, "after": self.after},
        }
        return "&" + urlencode({name: value for name, value in asked.items() if value})


@shows(
    *("dashboard/fleet.html", "fleet", "view", "metric", "sort", "only", "open", "after"),
    *(*SUBJECTS, *PERIOD),
    default="24h",
    needs_gpus=True,
)
def fleet(request: HttpRequest, period: Period) -> Context:
    """Narrowed, it shows the nodes and GPUs with time of what the filters name."""
    scope, filters = filtered(request)
    asked = _asked(request)
    figures = fleet_figures(period.interval, scope, asked.sort)
    broken = _shown_marks(figures, period, scope)
    wanted = _wanted(figures, asked, broken)
    part, pager = _page(request, wanted, asked)
    lines = wanted[part]
    return {
        **_narrowed(filters, figures),
        **{"figures": figures, "pager": pager},
        **_headline(figures, period, scope),
        **CHOICES,
        **{"asked": asked, "broken": broken, "place": _place(wanted, lines)},
        **_scale(asked.metric, period),
        "drawn_at_most": _drawn_at_most(lines),
        **_shown(asked, lines, period, scope, broken),
    }


def _headline(figures: FleetFigures, period: Period, scope: Scope) -> Context:
    """Since when the sums are recorded, until when they are of all nodes, and what of the waste
    people agreed is none.
    """
    is_any = figures.totals.wasted_usd
    return {
        **record_of(period, figures.totals.capacity_ms),
        "summed_until": summed_until(period.interval, period.now),
        "agreed_usd": agreed_usd(period.interval, now=period.now, scope=scope) if is_any else None,
    }


def _narrowed(filters: dict[str, str], figures: FleetFigures) -> Context:
    """By which filters, whether they name some of the jobs there, and the team that they name and
    there is none of ("": there is).
    """
    team = "" if figures.lines else filters.get("team", "")
    is_known = team in ("", NO_JOB) or visible_teams().filter(slug=team).exists()
    return {
        "filters": filters,
        "is_of_some": bool(filters.keys() - OF_MACHINES),
        "no_team": "" if is_known else team,
    }


def _shown_marks(figures: FleetFigures, period: Period, scope: Scope) -> list[BrokenMark]:
    """The broken GPUs of the nodes that are shown; narrowed, those with time in the scope."""
    names = {node.name for node in figures.nodes}
    marks = [mark for mark in broken_marks() if mark.gpu.node.name in names]
    if not marks or scope == EVERYTHING:
        return marks
    uuids = {group.key for group in costs.totals_by(period.interval, "gpu", scope=scope)}
    return [mark for mark in marks if mark.gpu.uuid in uuids]


def _drawn_at_most(lines: Sequence[NodeFigures]) -> int:
    """How many GPUs a picture of the map has at most, where these nodes have more; else 0."""
    gpus = sum(line.node.gpu_count for line in lines)
    return MOST_GPUS if gpus > MOST_GPUS else 0


def _asked(request: HttpRequest) -> Asked:
    metric = chosen(request, "metric", maps.METRICS, default="state")
    return Asked(
        view=chosen(request, "view", VIEWS, default="heatmap"),
        metric=maps.METRICS[metric],
        sort=chosen(request, "sort", SORTS, default=DEFAULT_SORT),
        only=chosen(request, "only", ONLY),
        after=request.GET.get("after", ""),
        opened=[name for name in request.GET.get("open", "").split(",") if name][:MAX_OPEN],
    )


def _wanted(figures: FleetFigures, asked: Asked, broken: Sequence[BrokenMark]) -> list[NodeFigures]:
    """The lines that the address asks for."""
    if asked.only != BROKEN:
        return figures.lines
    nodes = by_node(broken)
    return [line for line in figures.lines if line.node.name in nodes]


def _page(request: HttpRequest, wanted: list[NodeFigures], asked: Asked) -> tuple[slice, Pager]:
    gpus = TABLE_GPUS if asked.view == "table" else MAX_GPUS
    part, pager = page_of([line.node for line in wanted], after=asked.after, gpus=gpus)
    if pager.is_first:
        first_page(request)
    return part, pager


def _shown(
    asked: Asked,
    lines: list[NodeFigures],
    period: Period,
    scope: Scope,
    broken: Sequence[BrokenMark],
) -> Context:
    """What the view alone needs; the map asks for itself."""
    if asked.view == "grid":
        grid = squares.of_page(asked.metric.name, lines, period.interval, scope, broken)
        return {"pictures": grid.pictures, "most": grid.most}
    if asked.view == "table":
        return {
            "lines": _node_lines(lines, period, scope, asked.opened),
            "broken_by_node": by_node(broken),
            "broken_by_gpu": {mark.gpu.uuid: mark for mark in broken},
        }
    return {}


def _scale(metric: maps.MapMetric, period: Period) -> Context:
    """What stands beside the map's shades."""
    return {
        "undrawn_hours": _undrawn_hours(metric, period),
        "unit": maps.unit(period.interval),
    }


def _undrawn_hours(metric: maps.MapMetric, period: Period) -> int:
    """Hours of nodes that maps of readings show later; those of the ledger are there."""
    if metric.name == "state" or metric.is_money:
        return 0
    return telemetry.undrawn_hours(period.interval, period.now)


def _place(wanted: list[NodeFigures], lines: list[NodeFigures]) -> str:
    """Which of the nodes the page shows, in words; "" where it shows all."""
    if len(lines) == len(wanted):
        return ""
    first = wanted.index(lines[0]) + 1
    return f"{first:,} to {first + len(lines) - 1:,} of {len(wanted):,}"


def _node_lines(
    lines: list[NodeFigures], period: Period, scope: Scope, opened: list[str]
) -> list[NodeLine]:
    drains = telemetry.drains()
    silent_ms = {node.pk: node.last_ms for node in inventory.silent_nodes()}
    return [
        NodeLine(
            line,
            drains.get(line.node.pk),
            silent_ms.get(line.node.pk),
            _gpus(line, period, scope) if line.node.name in opened else [],
            ",".join(_toggled(opened, line.node.name)),
        )
        for line in lines
    ]


def _toggled(names: list[str], name: str) -> list[str]:
    """The names without this one, or with it."""
    if name in names:
        return [other for other in names if other != name]
    return [*names, name][-MAX_OPEN:]


def _gpus(line: NodeFigures, period: Period, scope: Scope) -> list[GPULine]:
    """The node's GPUs with their figures in the scope."""
    of_node = replace(scope, node=line.node.name)
    totals = {
        group.key: group.totals for group in costs.totals_by(period.interval, "gpu", scope=of_node)
    }
    return gpu_lines(physical_gpus(line.node), totals, period.interval)


def _gpu(uuid: str) -> GPU:
    return existing(inventory.gpu(uuid))


@shows("dashboard/_cell.html", "fleet", *PERIOD, default="1h", is_part=True, find=_gpu)
def cell(_: HttpRequest, period: Period, gpu: GPU) -> Context:
    """What the pointer is told of a cell of the map: state, jobs with their owners, dollars."""
    seen = costs.look(period.interval, "job", scope=Scope(gpu=gpu.uuid))
    groups = seen.held().by("job")
    jobs = attribution.jobs_by_key(
        [group.key for group in groups[:MAX_TOLD]], before=period.interval.end
    )
    totals = seen.totals()
    is_cut = totals.capacity_ms + MINUTE_MS <= period.interval.duration_ms
    return {
        "gpu": gpu,
        "totals": totals,
        "only_ms": totals.capacity_ms if is_cut else 0,
        "jobs": [(jobs.get(group.key), group) for group in groups[:MAX_TOLD]],
        "more": len(groups) - MAX_TOLD,
        "agreed_usd": _agreed_usd(gpu, period) if groups and totals.wasted_usd else None,
    }


def _agreed_usd(gpu: GPU, period: Period) -> Decimal | None:
    """What of its waste people agreed is none; None where nothing is."""
    agreed = agreed_by(("gpu",), period.interval, now=period.now, scope=Scope(gpu=gpu.uuid))
    return agreed["gpu"].get(gpu.uuid)
