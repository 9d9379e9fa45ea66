"""Numbers that people write, in files and in forms. Pure."""

import re
from decimal import Decimal, InvalidOperation

# beyond 40 places on either side nothing is an amount: "1e999999999" would only fill memory, or
# stop the database
MAX_PLACES = 40
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")


def number(text: str) -> Decimal | None:
    """The text as a finite number; None where it is none, or no amount by its size."""
    try:
        # Decimal also reads "1_0", digits of other scripts and "Infinity": no amount has any of
        # that
        amount = Decimal(text) if text.isascii() and "_" not in text else Decimal("NaN")
    except InvalidOperation:
        return None
    if not amount.is_finite() or amount.adjusted() > MAX_PLACES:
        return None
    return amount if int(amount.as_tuple().exponent) >= -MAX_PLACES else None


def typed(text: str) -> Decimal | None:
    """A number as it is typed into a form: "$12,000.50" too; None where it is none.

    A comma only parts thousands: "0,12" may mean twelve hundredths, and is never read as twelve.
    """
    bare = text.strip().removeprefix("$")
    return number(bare.replace(",", "") if _THOUSANDS.fullmatch(bare) else bare)
