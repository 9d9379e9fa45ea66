"""What real sensors add to drawn columns: resolution, scatter, inertia, and the columns that follow from others. Pure.

The drawn history is smooth where a GPU is steady; a store that is measured on it would look too good. Rounded as the
agent rounds: ratios to 5 digits, amounts to 3.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent import wire
from agent.window import AMOUNT_DECIMALS, RATIO_DECIMALS

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

UTIL_SAMPLES_S = 6  # NVML: a utilisation sample each 1/6 s, in whole percent
UTIL_SCATTER = 0.03  # of one sample
POWER_SCATTER = 0.012  # highest reading of a window above its mean
WARMING_S = 60.0  # a heat sink's time constant; the sensor reads whole degrees
CLOCK_STEP_HZ = 15e6  # clocks move in these steps; a window's mean is over its readings
PCIE_BYTES_S, PCIE_UNIT = 3e9, 1000.0  # at full SM activity; NVML reports kB/s
OCCUPANCY = 0.55  # warps resident, of what SM activity allows
_RATIOS = frozenset(wire.RATIO_COLUMNS)


def measured(drawn: Columns, *, window_s: int, rng: np.random.Generator) -> Columns:
    """The GPU's columns as its driver would have told them; what was not read stays NaN."""
    count = len(drawn["start_ms"])
    busy = drawn["util_mean"] > 0.02
    power_w = drawn["power_w"]
    told = drawn | {
        "util_mean": _scattered_share(drawn["util_mean"], window_s * UTIL_SAMPLES_S, rng, percent=True),
        "util_zero_fraction": _scattered_share(drawn["util_zero_fraction"], window_s * UTIL_SAMPLES_S, rng),
        "util_max": np.rint(drawn["util_max"] * 100) / 100,
        "power_max_w": power_w * (1 + POWER_SCATTER * np.abs(rng.standard_normal(count))),
        "energy_j": power_w * window_s,
        "temperature_c": _warmed(drawn["temperature_c"], window_s, rng),
        "sm_clock_hz": drawn["sm_clock_hz"] - busy * rng.poisson(3.0, count) * CLOCK_STEP_HZ / window_s,
        "pcie_rx_bytes_s": _pcie(drawn, busy, rng, share=1.0),
        "pcie_tx_bytes_s": _pcie(drawn, busy, rng, share=0.4),
    }
    if "sm_active" in drawn:
        told["sm_occupancy"] = drawn["sm_active"] * OCCUPANCY * (1 + 0.02 * rng.standard_normal(count))
    return {name: _rounded(name, values) for name, values in told.items()}


def _scattered_share(share: Floats, samples: int, rng: np.random.Generator, *, percent: bool = False) -> Floats:
    """A mean over whole-percent samples (or a share of samples): scattered where the GPU is neither at rest nor at its limit."""
    varies = (share > 0.005) & (share < 0.995)
    scattered = np.clip(share + varies * rng.standard_normal(len(share)) * UTIL_SCATTER / samples**0.5, 0.0, 1.0)
    steps = samples * 100 if percent else samples
    told: Floats = np.rint(scattered * steps) / steps
    return told


def _warmed(settled_c: Floats, window_s: int, rng: np.random.Generator) -> Floats:
    """The temperature on its way to where it settles, as the mean of whole degrees."""
    known = np.where(np.isnan(settled_c), 40.0, settled_c)
    weights = np.exp(-np.arange(0.0, 5 * WARMING_S, window_s) / WARMING_S)
    padded = np.concatenate([np.full(len(weights) - 1, known[0]), known])
    lagged = np.convolve(padded, weights / weights.sum(), mode="valid")
    told: Floats = np.rint((lagged + 0.05 * rng.standard_normal(len(lagged))) * window_s) / window_s
    return np.where(np.isnan(settled_c), np.nan, told)


def _pcie(drawn: Columns, busy: NDArray[np.bool_], rng: np.random.Generator, *, share: float) -> Floats:
    """Traffic that goes with the work, 0 at rest; NaN where nothing was read."""
    level = drawn.get("sm_active", drawn["util_mean"])
    told: Floats = np.rint(busy * level * PCIE_BYTES_S * share * rng.lognormal(0.0, 0.2, len(level)) / PCIE_UNIT) * PCIE_UNIT
    return told


def _rounded(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype != np.float64:
        return values
    return np.round(values, RATIO_DECIMALS if name in _RATIOS else AMOUNT_DECIMALS)
