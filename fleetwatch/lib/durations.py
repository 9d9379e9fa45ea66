"""How long something is, with nothing left off. Pure."""

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def exact(milliseconds: float) -> str:
    """To the millisecond, without units that are zero: "1 h 30 min 40 s", "90.5 s" is
    "1 min 30.5 s"; of nothing "0 s".
    """
    parts = []
    for name, size in _UNITS:
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count:.0f} {name}")
    if milliseconds:
        parts.append(f"{milliseconds / 1000:.10g} s")
    return " ".join(parts) or "0 s"
