"""Texts of CSV files that no spreadsheet runs as a formula: names of users, jobs and hosts are
typed by anybody. Pure.
"""

import re

# https://owasp.org/www-community/attacks/CSV_Injection, and the full-width and small forms that
# spreadsheets take for the same.
ACTIVE = "=+\\-@＝＋－＠﹦﹢﹣﹫"
CONTROL = ("\t", "\r", "\n")
# What begins a cell. Where commas are decimal signs a spreadsheet cuts lines at semicolons, and our
# quotes, which stand behind a comma then, hold nothing together: what follows a semicolon, a tab or
# a line break begins a cell of its own.
SEPARATORS = r";\t-\r\x1c-\x1e\x85\u2028\u2029"
# What may stand unseen before a character, and be dropped when a file is read: spaces, control and
# format characters (categories Zs, Cc, Cf), and the blanks that Unicode counts as letters, marks or
# symbols.
UNSEEN = (
    r"\x00-\x08\x0e-\x1b\x1f\x20\x7f-\x84\x86-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    r"\u180b-\u180f\u1680\u2000-\u200f\u202a-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc"
    r"\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BEGINS = re.compile(rf"""((?:^|[{SEPARATORS}])[{UNSEEN}"]*)(?=[{ACTIVE}])""")


def defused(text: str) -> str:
    """The text with an apostrophe before each character at which a spreadsheet would begin a
    formula.
    """
    shown = _BEGINS.sub(r"\1'", text)
    return f"'{shown}" if shown.startswith(CONTROL) else shown
