"""A job that waits for its input, as its windows were posted and diagnosed."""

from fleetwatch.diagnosis import services
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.intervals import HOUR_MS
from tests.ledger.fleet import NOW, QUIET, T0, Sender, a_job, held, post

# a sawtooth of seconds: the mean says 50 %, the readings say 0 or 100 %
SAWTOOTH = QUIET | {
    "util_mean": 0.5, "util_min": 0.0, "util_p50": 0.4, "util_max": 1.0, "util_zero_fraction": 0.45,
    "util_low_fraction": 0.48, "util_high_fraction": 0.5, "util_dips": 3, "util_longest_low_s": 1.7,
    "util_cycle_s": 3.3, "util_cycle_cv": 0.1, "power_w": 300.0,
}  # fmt: skip
BUSIEST = SAWTOOTH | {"util_dips": 5}
WINDOWS = 720  # of ten seconds: two hours


def a_starved_job() -> Finding:
    """A job that waits for its input for two hours; its 96th minute has the most pauses."""
    says = [BUSIEST if 570 <= number < 576 else SAWTOOTH for number in range(WINDOWS)]
    says[-1] = {name: value for name, value in SAWTOOTH.items() if name != "util_max"}
    holds = [held(end=T0 + 2 * HOUR_MS)]
    job = a_job(name="train", start_ms=T0, submit_ms=T0)
    post(Sender().batch(T0, *says, window_s=10, jobs=[job], allocations=holds))
    services.diagnose(NOW, 1000)
    return Finding.objects.get(cause="data_starved")


def traces(client, finding: Finding) -> dict[str, dict]:
    figure = client.get(f"/charts/finding?finding={finding.pk}").json()
    return {trace["name"]: trace for trace in figure["data"]}
