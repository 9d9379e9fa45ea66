"""What no rule explains."""

from dataclasses import replace

from fleetwatch.diagnosis.cause import MINUTES, NSYS, TORCH_PROFILER, UNKNOWN, Cause, Step

CAUSE = Cause(
    code="undetermined",
    title="No known cause",
    sentence=(
        "None of the known causes fits what was read, or several jobs hold the GPU and nobody read"
        " which of them did what."
    ),
    looks="Waste that no rule explains.",
    sensors="whatever was read",
    fixes=(),
    effort=MINUTES,
    range_words="nothing is promised",
    tell=(
        Step("Profile one minute of it.", NSYS),
        Step("See what the main process does.", "py-spy record --pid PID -d 60 -o profile.svg"),
        Step("See the gaps between steps.", TORCH_PROFILER),
    ),
    verdict=UNKNOWN,
)

TOO_SHORT = replace(
    CAUSE,
    title="Too short to judge",
    sentence="It was observed, but held its GPUs for too short a time to judge.",
    looks="A part of five minutes.",
    tell=(),
)
