"""Cases that were judged side by side are told as those judged one after the other."""

from collections import Counter

from benchmarks.bench_diagnosis import Judged, together
from benchmarks.cases import SENSORS


def _part(name: str, right: float) -> dict[str, Judged]:
    found = {one: Judged() for one in SENSORS}
    found["all"].grades[name] += Counter(right=right, wrong=1 - right)
    found["all"].causes[name] += Counter(hung=1.0)
    found["all"].truths["healthy"] += Counter(healthy=right, hung=1 - right)
    return found


def test_each_name_keeps_its_grades_and_truths_are_summed():
    found = together([_part("healthy_llm", 1.0), _part("warm_up", 0.5)])

    assert list(found) == list(SENSORS)
    assert found["all"].share(["healthy_llm", "warm_up"], "right") == 75
    assert found["all"].share(["warm_up"], "wrong") == 50
    assert found["all"].causes["warm_up"] == Counter(hung=1.0)
    assert found["all"].truths["healthy"] == Counter(healthy=1.5, hung=0.5)
    assert found["no_gpm"].grades == {}
