"""Entries of the audit log read as sentences."""

from zoneinfo import ZoneInfo

import pytest

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.dashboard.audit_words import audit_lines


def read_aloud(action: str, subject: str, **detail: object) -> str:
    entry = AuditEntry(action=action, subject=subject, name="otto", detail=detail)
    [line] = audit_lines([entry], ZoneInfo("Europe/Berlin"))
    said = " ".join(filter(None, (line.did, line.what, line.after)))
    return f"{said} · {line.facts}" if line.facts else said


@pytest.mark.parametrize(
    ("action", "text", "sentence"),
    [
        (
            "incident.not_waste",
            "not waste, until 2026-12-06 13:44 UTC by otto: a notebook: agreed",
            "marked incident 4 as not waste · until 6 Dec 2026, 13:44 UTC, “a notebook: agreed”",
        ),
        (
            "incident.not_waste",
            "agreed as not waste, until 6 Dec 2026, 13:44 UTC by otto: a notebook",
            "marked incident 4 as not waste · until 6 Dec 2026, 13:44 UTC, “a notebook”",
        ),
        (
            "incident.snooze",
            "snoozed until 2026-11-29 17:29 UTC by otto",
            "snoozed incident 4 · until 29 Nov 2026, 17:29 UTC",
        ),
        ("incident.ack", "acknowledged by otto: drained", "acknowledged incident 4 · “drained”"),
        ("incident.assign", "given to ann by otto", "assigned incident 4 · to ann"),
        ("incident.unsnooze", "snooze taken back by otto", "ended the snooze of incident 4"),
        ("incident.fixed", "fixed by otto: it works", "marked incident 4 as fixed · “it works”"),
    ],
)
def test_what_was_done_to_an_incident_is_said_once(action, text, sentence):
    assert read_aloud(action, "4", text=text) == sentence


@pytest.mark.parametrize(
    ("action", "detail", "sentence"),
    [
        (
            "budget.set",
            {"month": "2026-11", "amount": "6420.00", "before": "1200.50 EUR", "currency": "USD"},
            "set the budget of x · Nov 2026, $6,420, before 1,200.50 EUR",
        ),
        (
            "commitment.make",
            {
                "price": "2.37 USD per GPU-hour",
                "valid_to": "2027-11-14T23:00:00+00:00",
                "valid_from": "2026-11-15T09:00:00+00:00",
            },
            "recorded the commitment x · price $2.37 per GPU-hour, from 15 Nov 2026, 10:00,"
            " until 15 Nov 2027",
        ),
        (
            "report.approve",
            {"version": 2, "cost_usd": "-1234.567800"},
            "approved the statement x · version 2, −$1,234.57",
        ),
        ("channel.switch", {"is_enabled": False}, "switched the channel x · switched off"),
        (
            "action.keep",
            {"ladder": 3, "reason": "it evaluates"},
            "kept x · “it evaluates”",
        ),
        ("person.join", {"team": "nlp"}, "added x to a team · team nlp"),
        ("route.set", {"channels": []}, "set the route of x"),
        ("rate.region", {"month": "2026-13"}, "set the facts of the region x · 2026-13"),
        ("export.backup", {"bytes": 2048}, "made the backup x · 2.0\xa0KB"),
    ],
)
def test_money_days_and_flags_read_as_people_write_them(action, detail, sentence):
    assert read_aloud(action, "x", **detail) == sentence


def test_the_audit_log_says_a_budget_as_people_do():
    detail = {"month": "2026-11", "amount": "1200.50", "currency": "USD", "before": None}
    entry = AuditEntry(action="budget.set", subject="nlp", name="ann", detail=detail)

    [line] = audit_lines([entry], ZoneInfo("UTC"))

    assert (line.did, line.what, line.facts) == (
        "set the budget of",
        "nlp",
        "Nov 2026, $1,200.50",
    )


@pytest.mark.parametrize(
    ("action", "subject", "detail", "sentence"),
    [
        ("route.set", "unowned", {}, "set the route of users without an account here"),
        ("route.set", "operators", {}, "set the route of the operators"),
        ("route.set", "nlp", {}, "set the route of nlp"),
        (
            "channel.create",
            "Team nlp",
            {"kind": "log"},
            "created the channel Team nlp · Delivery log",
        ),
        (
            "silence.add",
            "job x",
            {"kind": "exemption", "reason": "a notebook"},
            "agreed as not waste: job x · “a notebook”",
        ),
        (
            "silence.end",
            "job x",
            {"kind": "exemption"},
            "ended what was agreed as not waste: job x",
        ),
        ("silence.add", "node n1", {"kind": "silence"}, "added a silence of node n1"),
    ],
)
def test_an_entry_has_the_words_of_the_pages(action, subject, detail, sentence):
    assert read_aloud(action, subject, **detail) == sentence


@pytest.mark.parametrize(
    ("file", "asked", "what"),
    [
        ("job", "job=slurm/della/1&range=24h", "job slurm/della/1 (CSV, 2.0\xa0KB)"),
        ("gpu-util", "gpu=GPU-1", "gpu util, GPU GPU-1 (CSV, 2.0\xa0KB)"),
        ("costs", "group_by=user&team=nlp", "costs by user, team nlp (CSV, 2.0\xa0KB)"),
        ("job", f"job={'x' * 80}", f"job {'x' * 60}… (CSV, 2.0\xa0KB)"),
        ("fleet", "range=24h", "fleet (CSV, 2.0\xa0KB)"),
    ],
)
def test_an_export_says_what_it_is_of(file, asked, what):
    detail = {"file": f"fleetwatch-{file}.csv", "asked": asked, "bytes": 2048}

    assert read_aloud("export.file", "/charts/x", **detail) == f"exported {what}"
