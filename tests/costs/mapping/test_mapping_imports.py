"""Importing mapping rules: all or nothing, twice is once, and what moves in dollars is known
before.
"""

from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import call_command

from fleetwatch.accounts.models import Team
from fleetwatch.costs.difference import Imported
from fleetwatch.costs.mapping.mapping_imports import dry_run, import_mappings
from fleetwatch.costs.models import Attribution, MappingRule
from fleetwatch.lib.csv_files.csv_rows import RefusedError
from tests.costs.factories import HOUR, a_gpu, a_job, a_rate, an_entry
from tests.costs.mapping.test_attribution import ONE, close, lines

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 19, 47, tzinfo=UTC)
FILE = "user,team,project,valid_from\nann,vision,Apollo,beginning\nbob,nlp,,2026-11-01\n"


def imported(text, **fields):
    return import_mappings(text.encode(), now=NOW, **fields)


def faults(text):
    with pytest.raises(RefusedError) as refused:
        imported(text)
    return [(fault.line, fault.field) for fault in refused.value.faults]


def an_hour_of_each():
    gpu = a_gpu()
    a_rate("2", gpu=gpu)
    for number, user in enumerate(("ann", "bob")):
        an_entry(gpu, job=a_job(user=user, team=None), start=HOUR + number * ONE)


def test_jobs_belong_where_the_files_rules_say_at_once():
    an_hour_of_each()

    assert imported(FILE, by="eve") == Imported(set=2, stood=0)

    assert lines() == {"vision": 1, "nlp": 1}
    assert lines("project") == {"Apollo": 1, "(unmapped)": 1}
    assert set(MappingRule.objects.values_list("created_by", flat=True)) == {"eve"}


def test_the_same_file_twice_changes_nothing_whatever_the_order_of_its_lines():
    imported(FILE)
    header, *rules = FILE.splitlines(keepends=True)

    assert imported(header + "".join(reversed(rules)) + rules[0]) == Imported(set=0, stood=3)
    assert MappingRule.objects.count() == 2


def test_a_line_that_stands_twice_in_the_file_is_one_rule():
    assert imported(FILE + FILE.splitlines()[1] + "\n") == Imported(set=2, stood=1)


def test_of_two_equal_rules_the_one_that_stands_earlier_in_the_file_is_asked_first():
    an_hour_of_each()

    imported("user,team,valid_from\nan*,vision,beginning\na*n,nlp,beginning\n")

    assert lines() == {"vision": 1, "(unmapped)": 1}


def test_one_bad_line_and_nothing_is_set():
    an_hour_of_each()
    close(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))

    assert faults(FILE + "eve,audit,,2026-11-01T00:30+00:00\neve,audit,,2026-11-02\n") == [
        (2, "valid_from"),
        (4, "valid_from"),
    ]
    assert (
        MappingRule.objects.count(),
        Attribution.objects.count(),
        Team.objects.filter(slug="audit").count(),
    ) == (0, 0, 0)


def test_what_divisions_cut_off_is_no_difference_of_the_fleet():
    gpu = a_gpu()
    a_rate("3.333333", gpu=gpu)
    for number, user in enumerate(("ann", "bob", "eve")):
        an_entry(
            gpu,
            job=a_job(user=user, team=None),
            start=HOUR + number * ONE,
            gpu_ms=1_000_001 + number,
        )

    told = dry_run(b"user,team,valid_from\nann,vision,beginning\n", now=NOW)

    assert told.total.difference_usd == 0
    assert sum(change.difference_usd for change in told.changes if change.owner == "team") == 0


def test_a_dry_run_says_the_dollars_per_line_and_writes_nothing():
    an_hour_of_each()

    found = dry_run(FILE.encode(), now=NOW)

    assert [
        (each.owner, each.label, each.before_usd, each.after_usd, each.difference_usd)
        for each in found.changes
    ] == [
        ("team", "no team: no rule matched", Decimal(4), Decimal(0), Decimal(-4)),
        ("team", "nlp", Decimal(0), Decimal(2), Decimal(2)),
        ("team", "vision", Decimal(0), Decimal(2), Decimal(2)),
        ("project", "Apollo", Decimal(0), Decimal(2), Decimal(2)),
        ("project", "no project: no rule matched", Decimal(4), Decimal(2), Decimal(-2)),
    ]
    assert (found.total.before_usd, found.total.after_usd, found.would) == (
        4,
        4,
        Imported(set=2, stood=0),
    )
    assert lines() == {"(unmapped)": 2}
    assert not MappingRule.objects.exists()


def run(*arguments):
    out, err = StringIO(), StringIO()
    try:
        call_command("import_mappings", *arguments, stdout=out, stderr=err)
    except SystemExit as exit_:
        return exit_.code, out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_the_command_sets_shows_or_refuses(tmp_path, monkeypatch):
    an_hour_of_each()
    file = tmp_path / "rules.csv"
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)

    file.write_text(FILE)
    status, out, _ = run(str(file), "--dry-run")
    assert (status, MappingRule.objects.count()) == (0, 0)
    assert "would set 2 rules, 0 stand already; nothing was set" in out
    assert ["team", "vision", "0.00", "2.00", "+2.00"] in [
        line.split() for line in out.splitlines()
    ]
    assert run(str(file))[:2] == (0, "2 rules set, 0 stood already\n")
    file.write_text("user,team,valid_from\nann,,beginning\n")
    status, _, err = run(str(file))
    assert (status, err) == (
        1,
        (
            f"{file}: line 2, team: What do they belong to? A team, a project or a cost"
            " centre.\nnothing was set\n"
        ),
    )
    assert run(str(tmp_path / "none.csv"))[0] == 2
