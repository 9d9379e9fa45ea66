"""What a person asked for and can't be done."""

from datetime import datetime, timedelta


class RefusedFieldError(ValueError):
    """The text is a sentence for who asked, `field` names what is wrong ("" = all of it)."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


def is_name(text: str, *, longest: int) -> bool:
    """Whether it can be a name: no longer than that, without control characters and blanks around
    it.
    """
    return len(text) <= longest and text.isprintable() and text == text.strip()


def check_text(text: str, *, longest: int, field: str) -> None:
    """Raises RefusedFieldError for a text that is longer, or that Postgres does not take."""
    if len(text) > longest:
        raise RefusedFieldError(f"at most {longest} characters, please", field=field)
    if "\x00" in text:
        raise RefusedFieldError("text can't hold the character 0", field=field)


def check_end(until: datetime, now: datetime, *, longest: timedelta) -> None:
    """Raises RefusedFieldError for what would end in the past, or later than that."""
    if not now < until <= now + longest:
        raise RefusedFieldError(
            f"it ends: name a moment within the next {longest.days} days", field="until"
        )
