"""A stored report as a file. Reading it again gives the same bytes of the same version."""

import re
from collections.abc import Sequence

from fleetwatch.reports import selectors
from fleetwatch.reports.exports import focus as focus_rows
from fleetwatch.reports.exports.cover import cover
from fleetwatch.reports.exports.files import to_csv, to_xlsx
from fleetwatch.reports.exports.tables import Cell, tables
from fleetwatch.reports.models import Report
from fleetwatch.reports.monthly import FLEET
from fleetwatch.reports.printed_content import printed_content, with_cents
from fleetwatch.reports.statement import Shape

RECORDED_SINCE = "recorded_since_utc"
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def name(report: Report) -> str:
    """fleetwatch-2026-10-nlp-v1: what any file system takes."""
    subject = _NO_FILE_NAME.sub("-", report.subject).strip("-.")[:60] or (
        "fleet" if report.kind == FLEET else f"team-{report.pk}"
    )
    return f"fleetwatch-{report.content['month']}-{subject}-v{report.version}"


def csv(report: Report) -> str:
    """The lines of a statement, or the teams and own lines of the fleet; the last column says since
    when there are figures, where that is within the period.
    """
    main = tables(_with_cents(report))[0]
    since = report.content.get("recorded_since")
    return to_csv((*main.columns, RECORDED_SINCE), [(*row, since) for row in main.rows])


def xlsx(report: Report, *, invoiced: Sequence[tuple[str, Cell]] = ()) -> bytes:
    """A cover with the dearest as a chart, and all tables of the report, one sheet each. The cover
    has facts of what was `invoiced` too, which is no version's: a file of another day may differ.
    """
    content = _with_cents(report)
    front = cover(content, version=report.version, invoiced=invoiced)
    return to_xlsx(tables(content), front)


def _with_cents(report: Report) -> Shape:
    """Its content, with what its page prints."""
    content = report.content
    return with_cents(content, printed_content(selectors.figures(content)))


def focus(report: Report, *, by_day: bool = False) -> str:
    """FOCUS 1.2: the lines of a statement, or their days; of the fleet, those of all teams and its
    own.
    """
    contents = [report.content]
    if report.kind == FLEET:
        statements = sorted(selectors.statements(report).items())
        contents = [each.content for _, each in statements] + contents
    return to_csv(focus_rows.COLUMNS, focus_rows.rows(contents, by_day=by_day))
