"""Texts of CSV files that no spreadsheet runs as a formula: names of users, jobs and hosts are typed by anybody. Pure."""

import re

# https://owasp.org/www-community/attacks/CSV_Injection, and the full-width forms that Japanese Excel takes for the same.
ACTIVE = "=+\\-@＝＋－＠"
CONTROL = ("\t", "\r", "\n")
# Where a cell begins. Where commas are decimal signs a spreadsheet cuts lines at semicolons, and our quotes, which stand
# behind a comma then, hold nothing together: what follows a semicolon, a tab or a line break begins a cell of its own.
_BEGINS = re.compile(rf"""(^|[;\t\r\n][\s"]*)(?=[{ACTIVE}])""")


def defused(text: str) -> str:
    """The text with an apostrophe before each character at which a spreadsheet would begin a formula."""
    shown = _BEGINS.sub(r"\1'", text)
    return f"'{shown}" if shown.startswith(CONTROL) else shown
