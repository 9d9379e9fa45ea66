"""How near the demo's fleet is to a real one: its distributions beside AcmeTrace's.

With FLEETWATCH_EXTERNAL_DATA it reads acme_cdf/ there (InternLM/AcmeTrace, CC-BY-4.0: two clusters
of A100-80 GB, read each 15 s). The demo's default schedule is drawn on A100 cards in 10 s windows,
some hours of each node. Distance: Wasserstein-1 (mean difference of the quantiles, in the series'
unit) and Kolmogorov-Smirnov (largest difference of the CDFs).
"""

import csv
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.sources.simulated.card import card
from agent.sources.simulated.hardware import HARDWARE
from agent.sources.simulated.schedule import jobs_between
from agent.sources.simulated.spec import parse_spec
from benchmarks.tables import Size, Table
from fleetwatch.demo.fleet import nodes
from fleetwatch.demo.signals import Span, whole
from fleetwatch.demo.window_columns import draw

START_MS, DAYS, HOUR_MS = 1_794_009_600_000, 14, 3_600_000
HOURS = 16  # of each node
# A100 boards, whatever the node is: the clusters that we compare with have no others; read as DCGM
# reads them.
HARDWARE_READ = replace(HARDWARE["A100"], has_gpm=True)
CLUSTERS = ("kalos", "seren")
SERIES = (
    # title, file, our column, our unit in theirs
    ("GPU utilisation %", "util_gpu_{}__GPU_UTIL.csv", "util_mean", 100.0),
    ("SM active %", "util_gpu_{}__SM_ACTIVE.csv", "sm_active", 100.0),
    ("SM occupancy %", "util_gpu_{}__SM_OCCUPANCY.csv", "sm_occupancy", 100.0),
    (
        "memory used %",
        "util_gpu_{}__FB_USED_PCT.csv",
        "memory_used_bytes",
        100.0 / HARDWARE_READ.memory_total_bytes,
    ),
    ("power W", "gpu_power_{}__POWER_W.csv", "power_w", 1.0),
)
Floats = NDArray[np.float64]


def drawn() -> dict[str, Floats]:
    """Each compared column over the default fleet."""
    found: dict[str, list[Floats]] = {column: [] for _, _, column, _ in SERIES}
    for node in nodes():
        spec = parse_spec(node.spec)
        rng = random.Random(node.name)
        cards = [
            replace(card(spec, node=node.name, index=index), hardware=HARDWARE_READ, idle_w=63.5)
            for index in range(spec.count)
        ]
        for hour in sorted(rng.sample(range(24 * DAYS), HOURS)):
            start_ms = START_MS + hour * HOUR_MS
            parts = whole(jobs_between(spec, start_ms, start_ms + HOUR_MS))
            span = Span(start_ms // 1000, HOUR_MS // 1000, 10)
            for columns in draw(cards, parts, span, seed=spec.seed).gpus:
                for column, values in found.items():
                    values.append(columns[column])
    return {column: np.concatenate(values) for column, values in found.items()}


def shares() -> Counter[str]:
    """GPU-hours of the default fleet by truth, in percent of all."""
    held: Counter[str] = Counter()
    for node in nodes():
        spec = parse_spec(node.spec)
        end_ms = START_MS + DAYS * 24 * HOUR_MS
        for job in jobs_between(spec, START_MS, end_ms):
            gpu_ms = (min(job.end_ms, end_ms) - max(job.start_ms, START_MS)) * len(job.gpus)
            held[job.archetype.truth] += (
                gpu_ms / (len(nodes()) * spec.count * DAYS * 24 * HOUR_MS) * 100
            )
    held["free"] = 100 - sum(held.values())
    return held


def read(path: Path) -> tuple[Floats, Floats]:
    """Values and the share of readings at or below them."""
    with path.open(encoding="utf-8") as lines:
        rows = [(float(row["x"]), float(row["cdf_percent"]) / 100) for row in csv.DictReader(lines)]
    values, passed = np.array(rows).T
    return values, passed


def wasserstein(ours: Floats, values: Floats, passed: Floats) -> float:
    """Mean difference of the quantiles."""
    points = (np.arange(1000) + 0.5) / 1000
    return float(np.abs(np.quantile(ours, points) - np.interp(points, passed, values)).mean())


def kolmogorov_smirnov(ours: Floats, values: Floats, passed: Floats, *, step: float) -> float:
    """Largest difference of the two CDFs, looked at from one grid step of values to the next:
    sensors round.
    """
    grid = np.arange(0.0, values[-1] + step, step) + step / 2
    theirs = passed[np.maximum(np.searchsorted(values, grid, side="right") - 1, 0)]
    mine = np.searchsorted(np.sort(ours), grid, side="right") / len(ours)
    return float(np.abs(mine - theirs).max())


def run(size: Size) -> list[Table]:
    """How near the demo's fleet is to a real one: its distributions beside AcmeTrace's (nothing
    where the recordings are not there).
    """
    root = Path(os.environ.get("FLEETWATCH_EXTERNAL_DATA", "")) / "acme_cdf"
    if not root.is_dir():
        return [
            Table(
                "The demo's fleet beside AcmeTrace",
                [""],
                [["not measured: FLEETWATCH_EXTERNAL_DATA names no folder with acme_cdf/"]],
            )
        ]
    rows: list[list[str]] = []
    samples = drawn()
    for title, name, column, unit in SERIES:
        ours = samples[column] * unit
        for cluster in CLUSTERS:
            path = root / name.format(
                f"{cluster}_full" if cluster == "kalos" and name.startswith("util") else cluster
            )
            values, passed = read(path)
            theirs = np.interp((np.arange(1000) + 0.5) / 1000, passed, values)
            figures = [(ours.mean(), theirs.mean()), (np.median(ours), np.median(theirs))]
            figures.append(((ours < 0.5).mean() * 100, (theirs < 0.5).mean() * 100))
            distance = (
                wasserstein(ours, values, passed),
                kolmogorov_smirnov(ours, values, passed, step=10.0 if "W" in title else 1.0),
            )
            rows.append(
                [
                    f"{title}, {cluster}",
                    *(f"{one:.1f} / {other:.1f}" for one, other in figures),
                    f"{distance[0]:.1f}",
                    f"{distance[1]:.2f}",
                ]
            )
    told = "GPU time by truth: " + ", ".join(
        f"{truth} {share:.1f} %" for truth, share in shares().most_common()
    )
    columns = [
        "ours / theirs",
        "mean",
        "median",
        "% below 0.5",
        "Wasserstein-1",
        "Kolmogorov-Smirnov",
    ]
    return [Table("The demo's fleet beside AcmeTrace", columns, rows, notes=(told,))]
