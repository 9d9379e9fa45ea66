"""The engines beside the compute units do the work: video is encoded or decoded, JPEG decoded,
optical flow computed.
"""

from fleetwatch.diagnosis.features import SHORT, Features, Mask
from fleetwatch.diagnosis.rules import HIGH, Detector, Found, at_least, found

FULL = 0.85  # share of time of the busiest one
SOME = 0.10  # from here on they do more than leave a trace


def find(f: Features) -> Found:
    """An engine is busy: that the compute units hardly are is its nature, and wastes nothing."""
    busy = at_least(f, "eng", FULL)
    return found(busy.met, confidence=HIGH, low=0.0, high=0.0, signs=(busy,))


def lead(f: Features) -> Mask:
    """Where they do more than the compute units: what is said of these is nothing of the work."""
    return at_least(f, "eng", SOME).met & ~(f["eng"] <= f["util"])


DETECTOR = Detector("video_engines", (SHORT,), find, holds_of_shared=True, is_of_engines=True)
