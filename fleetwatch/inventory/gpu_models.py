"""What is known of GPU products, by the name that the driver gives. Pure.

Sources: power draw from NVIDIA k8s-test-infra profiles and AcmeTrace; the idle
figure is the lower end of its range. An unknown product has no figures, never a guess:
its idle power is learned from each GPU's own quiet time (ledger/idle_power.py).
"""

import re
from dataclasses import dataclass

from fleetwatch.inventory.vgpu import slice_of


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A GPU product: its short name, bare idle power and default power limit in watts; None = not
    known.
    """

    name: str
    idle_w: float | None
    limit_w: float | None


# The first pattern that is found in the driver's name decides, so the narrower ones stand first.
KNOWN: tuple[tuple[str, ModelFacts], ...] = (
    (r"\bGB200\b", ModelFacts("GB200", 145.0, 1200.0)),
    (r"\bB200\b", ModelFacts("B200", 130.0, 1000.0)),
    (r"\bH200\b(?!.*NVL)", ModelFacts("H200 SXM", 80.0, 700.0)),
    (r"\bH100\b.*\bPCIe\b", ModelFacts("H100 PCIe", 45.0, 350.0)),
    # the driver calls the SXM board "NVIDIA H100 80GB HBM3"; the NVL is another product
    (r"\bH100\b(?=.*(SXM|HBM3\b))(?!.*NVL)|\bH100$", ModelFacts("H100 SXM", 70.0, 700.0)),
    (r"\bA100\b(?!.*PCIE).*\b80GB\b", ModelFacts("A100-80 SXM", 60.0, 400.0)),
    (r"\bL40S\b", ModelFacts("L40S", 35.0, 350.0)),
    (r"\bL4$", ModelFacts("L4", 13.0, 72.0)),
    (r"\bA10$", ModelFacts("A10", 15.0, 150.0)),
    (r"\bT4$", ModelFacts("T4", 10.0, 70.0)),
    (r"\bV100\b.*\bSXM2\b", ModelFacts("V100 SXM2", 40.0, 300.0)),
)
# Products under the driver's name without its brand: bare idle power and default power limit in
# watts. Limits: maximum power in NVIDIA's datasheets, of the board as shipped. Idle: `nvidia-smi -q
# -x` and terminal captures of boards in P8 without a process, published as test data by
# influxdata/telegraf and utkuozdemir/nvidia_gpu_exporter; GB300: NVIDIA k8s-test-infra. None:
# nothing published was found.
FIGURES: dict[str, tuple[float | None, float | None]] = {
    "GB300": (175.0, 1400.0),
    "H200 NVL": (None, 600.0),
    "H100 NVL": (None, 400.0),
    "H800": (None, 700.0),
    "H800 PCIe": (None, 350.0),
    "H20": (None, 500.0),
    "A100-SXM4-40GB": (None, 400.0),
    "A100-PCIE-40GB": (None, 250.0),
    "A100 80GB PCIe": (None, 300.0),
    "A800-SXM4-80GB": (None, 400.0),
    "A800 80GB PCIe": (None, 300.0),
    "A40": (None, 300.0),
    "A30": (None, 165.0),
    "A10G": (25.0, 300.0),
    "A2": (None, 60.0),
    "L40": (None, 300.0),
    "RTX 6000 Ada Generation": (None, 300.0),
    "RTX 4000 SFF Ada Generation": (8.0, 70.0),
    "RTX A6000": (None, 300.0),
    "RTX A5000": (None, 230.0),
    "RTX A4000": (None, 140.0),
    "GeForce RTX 5090": (None, 575.0),
    "GeForce RTX 4090": (None, 450.0),
    "GeForce RTX 4080": (None, 320.0),
    "GeForce RTX 3090": (27.0, 350.0),
    "GeForce RTX 3080": (22.0, 320.0),
    "GeForce RTX 3060": (11.0, 170.0),
    "GeForce RTX 2080 SUPER": (37.0, 250.0),
    "V100-PCIE-16GB": (None, 250.0),
    "V100-PCIE-32GB": (None, 250.0),
    "P100-PCIE-16GB": (None, 250.0),
}
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), facts) for pattern, facts in KNOWN)
_BY_NAME = {facts.name: facts for _, facts in KNOWN}
_BRANDS = re.compile(r"^(NVIDIA|Tesla)\s+", re.IGNORECASE)
# "NVIDIA H100 80GB HBM3 MIG 1g.10gb": the slice is its GPU's product
_SLICE = re.compile(r"\s+MIG\s+\S+$", re.IGNORECASE)


def facts_for(driver_name: str) -> ModelFacts:
    """The product's facts; for one that is not KNOWN its own name, without the brand, and figures
    where there are some.
    """
    name = _SLICE.sub("", " ".join(driver_name.split()))
    if name in _BY_NAME:
        return _BY_NAME[name]
    # of a part of a board nobody reads its power
    if slice_of(name) is None:
        for pattern, facts in _COMPILED:
            if pattern.search(name):
                return facts
    while _BRANDS.match(name):
        name = _BRANDS.sub("", name)
    return ModelFacts(name, *FIGURES.get(name, (None, None)))
