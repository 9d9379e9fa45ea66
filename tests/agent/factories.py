"""Small agent objects with everything defaulted; a test names only what it is about."""

from agent.config import Config
from agent.readings import GPUInfo, Reading
from agent.sending.enrolment import EnrollingSender

START = 1_794_000_000_000  # a multiple of 10 s
H100 = "NVIDIA H100 80GB HBM3"


def gpu(uuid="GPU-1", **facts):
    return GPUInfo(**{"uuid": uuid, "index": 0, "model": H100, "power_limit_w": 700.0, **facts})


def reading(second, **values):
    """A reading that many seconds after START."""
    return Reading(at_ms=START + round(second * 1000), **values)


def mapping(**changes):
    """The smallest batch, as decoded JSON."""
    batch = {
        "version": 1,
        "node": "gpu-07",
        "boot_id": "boot",
        "boot_start_ms": START - 60_000,
        "sequence": 0,
        "window_s": 10,
        "gpus": [{"uuid": "GPU-1"}],
        "windows": {"gpu": [0], "start_ms": [START], "observed_ms": [10_000]},
    }
    return {**batch, **changes}


def enrolling(hub, folder, *, node="gpu-07", **facts):
    """The agent's sender as a start of the service makes it, with its state in the folder."""
    return EnrollingSender(Config("run", node, server=hub.url, spool=folder / "state", **facts))
