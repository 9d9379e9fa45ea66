from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from fleetwatch.operations.models import JobRun


@pytest.mark.django_db(transaction=True)
def test_the_command_says_each_day_and_then_that_nothing_is_missing():
    first, second = StringIO(), StringIO()

    call_command("demo_history", days=1, gpus=8, until="2026-11-20T00:00:00Z", stdout=first)
    call_command("demo_history", days=1, gpus=8, until="2026-11-20T00:00:00Z", stdout=second)

    assert first.getvalue().splitlines()[-1] == "history is complete"
    assert [line.split()[:2] for line in first.getvalue().splitlines()[:-1]] == [
        ["history", "day=2026-11-19"]
    ]
    assert second.getvalue() == "history is complete\n"
    run = JobRun.objects.get(name="demo.history")
    assert (run.ok, run.did["batches"]) == (True, 4)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"days": 0}, "--days is 1 to 90"),
        ({"gpus": 5000}, "--gpus is 1 to 1024"),
        ({"until": "yesterday"}, "expected ISO 8601"),
    ],
)
def test_a_wrong_option_is_one_clear_line(options, sentence):
    with pytest.raises(CommandError, match=sentence):
        call_command("demo_history", **options)
