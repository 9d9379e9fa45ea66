"""What a person asked for and can't be done."""


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
