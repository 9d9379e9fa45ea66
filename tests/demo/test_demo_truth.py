from io import StringIO

import pytest
from django.core.management import CommandError, call_command


def _printed(**options: object) -> list[str]:
    out = StringIO()
    call_command("demo_truth", stdout=out, **options)
    return out.getvalue().splitlines()


def test_the_command_prints_what_was_true_of_each_gpu():
    first, *rows = _printed(start="2026-11-20T00:00Z", end="2026-11-20T06:00Z", gpus=8)

    assert first == "node,gpu,job_key,start_ms,end_ms,cause"
    assert {row.split(",")[0] for row in rows} == {"h100-01"}
    assert len({row.split(",")[1] for row in rows}) == 8
    assert all(
        1795132800000 <= int(row.split(",")[3]) < int(row.split(",")[4]) <= 1795154400000
        for row in rows
    )


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        ("yesterday", "2026-11-20T06:00Z", "expected ISO 8601"),
        ("2026-11-20T00:00", "2026-11-20T06:00Z", "say the offset"),
        ("2026-11-20T06:00Z", "2026-11-20T06:00Z", "--from must be before --to"),
        ("2026-01-01T00:00Z", "2026-11-20T06:00Z", "90 days at most"),
    ],
)
def test_a_wrong_time_is_one_clear_line(start, end, sentence):
    with pytest.raises(CommandError, match=sentence):
        _printed(start=start, end=end)
