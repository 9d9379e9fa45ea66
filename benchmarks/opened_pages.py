"""Every page of a fleet over 30 days, opened in turns: server time beside what is asked of it."""

import statistics
from dataclasses import dataclass, field

from benchmarks import reference
from benchmarks.apart import say
from benchmarks.client import Reader
from benchmarks.questions import Took
from benchmarks.servers import Hub
from benchmarks.tables import Goal, Table

MONTH = "?from=now-30d&to=now"
# GPUs, and milliseconds of the slowest page: must, aim
BOUNDS = {1000: (120, 80), 10_000: (300, None)}


@dataclass
class Opened:
    """What each page took; a page's name is its path without the period."""

    pages: dict[str, Took] = field(default_factory=dict)
    kernels: list[float] = field(default_factory=list)  # CPU seconds of one, before and after

    @property
    def slowest_s(self) -> float:
        return max(page.median_s for page in self.pages.values())


def opened(hub: Hub, rounds: int) -> Opened:
    """Each page once, uncounted, then so many rounds."""
    reader, paths = Reader(hub), _paths()
    for path in paths:
        reader.get(path)
    say(f"each of {len(paths)} pages was opened once")
    measured = Opened(kernels=[reference.kernel_s(hub)])
    for _ in range(rounds):
        for path in paths:
            page = reader.get(path)
            name = path.replace(MONTH, "").split("&gpu=")[0]
            took = measured.pages.setdefault(name, Took())
            took.add(page.clock_s, page.cpu_s, len(page.body))
    measured.kernels.append(reference.kernel_s(hub))
    say("the pages are opened")
    return measured


def _paths() -> list[str]:
    from fleetwatch.diagnosis.models import Finding
    from fleetwatch.inventory.models import GPU, Node
    from fleetwatch.jobs.models import Job

    node = Node.objects.order_by("name")[0].name
    gpu = GPU.objects.filter(node__name=node).order_by("index")[0].uuid
    job = Job.objects.filter(entry__isnull=False).order_by("-pk")[0].key
    of_a_period = [
        "/",
        "/overview",
        "/recoverable",
        "/wasters",
        "/fleet",
        "/jobs",
        "/waste",
        "/costs",
        "/capacity",
        "/findings",
        f"/nodes/{node}",
        f"/gpus/{gpu}",
        f"/jobs/{job}",
        "/charts/spend",
        "/charts/fleet",
        "/api/v1/fleet/summary",
        "/api/v1/nodes",
        "/api/v1/jobs",
        "/api/v1/gpus",
    ]
    of_no_period = ["/worst", "/budgets", "/reports", "/status", "/settings", "/alerts", "/me"]
    of_no_period += ["/search?q=node"]
    finding = Finding.objects.exclude(job=None).order_by("-last_ms", "-pk").first()
    page = f"/findings/{finding.pk}" if finding else ""
    of_findings = [page, f"{page}/around", "/search?q=idle"] if finding else []
    return [
        *[path + MONTH for path in of_a_period],
        f"/waste{MONTH}&group_by=job",
        f"/explain{MONTH}&gpu={gpu}",
        *of_no_period,
        *of_findings,
    ]


def table(measured: Opened, gpus: int, of_what: str = "") -> Table:
    """Server time of every page over 30 days, the slowest first; `of_what` beside the fleet's size:
    what it has more than a ledger.
    """
    rows = [
        [path, took.spread, f"{statistics.median(took.cpu_s) * 1000:,.0f}", took.size]
        for path, took in sorted(measured.pages.items(), key=lambda item: -item[1].median_s)
    ]
    where = f"{gpus:,} GPUs x 30 d" + (of_what and f", {of_what}")
    kernels = " and ".join(f"{spent_s:.2f}" for spent_s in measured.kernels)
    return Table(
        f"Pages: {where}",
        ["page", "ms", "CPU ms of web and Postgres", "bytes"],
        rows,
        notes=(
            (
                "over one kept connection to the web server as `manage.py up` starts it; no answer"
                " is cached between requests"
            ),
            (
                f"a reference kernel took {kernels} CPU-s before and after: the target is judged by"
                " how many of these were spent"
            ),
        ),
        goals=(_goal(measured, gpus, where),),
    )


def _goal(measured: Opened, gpus: int, where: str) -> Goal:
    must, aim = BOUNDS[min(size for size in BOUNDS if size >= gpus)]
    return Goal(
        "any page, server time: the slowest",
        measured.slowest_s * 1000,
        must,
        aim,
        "ms",
        where=where,
        kernel_s=statistics.mean(measured.kernels),
    )
