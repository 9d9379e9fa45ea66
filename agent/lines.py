"""What drivers, exporters, commands and users said, fit for one line of a log or a page."""


def printable(words: str, instead: str = " ") -> str:
    """The words with `instead` for every character that a terminal would obey."""
    if words.isprintable():
        return words
    return "".join(character if character.isprintable() else instead for character in words)
