"""A bench that ran alone replaces its own section of the page, and nothing else."""

from datetime import UTC, datetime

from benchmarks import page
from benchmarks.page import Result
from benchmarks.tables import Goal, Table

PAGE = """# Benchmarks

## Targets

| all |

## Alerts

old

### Rules

| old |

## Storage

kept
"""
BEGAN = datetime(2026, 11, 24, 5, tzinfo=UTC)
GOAL = Goal("a minute", 1.0, must=2, moonshot=1, unit="CPU-s")


def _with(name: str) -> list[str]:
    table = Table("Rules", ["condition", "CPU-s"], [["job_idle", 0.5]], goals=(GOAL,))
    result = Result(name, 60.0, about="What rules cost.", tables=(table,))
    text = page.with_sections(PAGE, [result], command="python -m benchmarks alerts", began=BEGAN)
    return text.splitlines()


def test_a_section_is_replaced_in_its_place_with_its_targets_and_command():
    lines = _with("alerts")

    assert [line for line in lines if line.startswith("#")] == [
        "# Benchmarks",
        "## Targets",
        "## Alerts",
        "### Targets",
        "### Rules",
        "## Storage",
    ]
    assert "| old |" not in lines
    assert "- 2026-11-24 05:00 UTC, `python -m benchmarks alerts`; minutes: alerts 1.0" in lines
    assert "| job_idle | 0.500 |" in lines
    assert lines[-3:] == ["## Storage", "", "kept"]


def test_a_section_that_the_page_does_not_have_comes_last():
    lines = _with("posting")

    assert [line for line in lines if line.startswith("## ")] == [
        "## Targets",
        "## Alerts",
        "## Storage",
        "## Posting",
    ]
    assert "old" in lines
