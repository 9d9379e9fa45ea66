"""The engines beside the compute units do the work: video is encoded or decoded, JPEG decoded,
optical flow computed.
"""

from fleetwatch.diagnosis.cause import MINUTES, WELL, Cause
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import HIGH, Detector, Judged, at_least, judged
from fleetwatch.ledger.judgement.observations import Mask

FULL = 0.85  # share of time of the busiest one
SOME = 0.10  # from here on they do more than leave a trace


def find(f: Features) -> Judged:
    """An engine is busy: that the compute units hardly are is its nature, and wastes nothing."""
    busy = at_least(f, "eng", FULL)
    return judged((busy,), confidence=HIGH, hits=busy.met)


def lead(f: Features) -> Mask:
    """Where they do more than the compute units: what is said of these is nothing of the work."""
    return at_least(f, "eng", SOME).met & ~(f["eng"] <= f["util"])


CAUSE = Cause(
    code="video_engines",
    title="Busy with video",
    sentence=(
        "Video, JPEG or optical flow is worked on by engines of their own, which are busy; the"
        " compute units hardly are, and need not be."
    ),
    looks="An encoder, decoder, JPEG or optical-flow engine is busy.",
    sensors="the driver's utilisation of these engines",
    fixes=(),
    effort=MINUTES,
    range_words="nothing to do",
    alike="Whether a smaller GPU with as many of these engines would do is not visible here.",
    detectors=(Detector(find, holds_of_shared=True, lead=lead),),
    verdict=WELL,
)
