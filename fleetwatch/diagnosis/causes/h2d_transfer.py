"""The GPU waits while data is copied to it.

A link that is 40 % full counts as much, but no agent reads a link's generation and width. Of every
full link (PCIe 3 x16 and faster: 15.75e9 bytes/s) 40 % are more than COPIES; of a narrower one
nothing is said below COPIES.
"""

from fleetwatch.diagnosis.cause import FASTER, HOURS, NSYS, Cause, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import MEDIUM, Detector, Judged, at_least, below, judged

MIB = 1024 * 1024
UTIL = 0.85
PAUSES = 0.10  # share of time below 10 % utilisation
COPIES = 4000 * MIB  # bytes/s to the GPU, as a mean


def find(f: Features) -> Judged:
    """Known only where PCIe traffic and the driver's samples are read; without the traffic pauses
    may still be copies.
    """
    rests = below(f, "util", UTIL)
    pauses = at_least(f, "lo", PAUSES)
    return judged(
        (rests, at_least(f, "rx", COPIES)),
        confidence=MEDIUM,
        recoverable=(0.3 * f["waits"], 0.8 * f["waits"]),
        strengthens=(pauses,),
        possible=rests.met & pauses.met & ~f.has("rx"),
    )


CAUSE = Cause(
    code="h2d_transfer",
    title="Waits for copies to the GPU",
    sentence="The GPU stands still while data is copied to it over PCIe.",
    looks="Short pauses while gigabytes per second flow to the GPU.",
    sensors="PCIe traffic and utilisation samples",
    fixes=(
        Step(
            "Copy from pinned memory while the GPU works.",
            "DataLoader(..., pin_memory=True)\nx = x.to(device, non_blocking=True)",
        ),
        Step(
            "Send small types and convert on the GPU.",
            "x = x_uint8.to(device, non_blocking=True).float().div_(255)",
        ),
        Step("Keep on the GPU what every step needs; avoid .item() and .cpu() in the loop."),
        Step(
            "Check that the link has all its lanes.",
            "nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.width.current"
            " --format=csv",
        ),
    ),
    effort=HOURS,
    range_words=FASTER,
    alike="A loop that waits for its input and then copies much of it shows both.",
    tell=(Step("Do copies and kernels overlap?", NSYS),),
    detectors=(Detector(find),),
)
