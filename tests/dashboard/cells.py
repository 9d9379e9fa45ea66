"""The cells of a map as a browser reads them."""

from base64 import b64decode


def cells_of(trace) -> list[list[int | None]]:
    """Rows of the map that the trace draws, lines between nodes included; None = not known."""
    raw = b64decode(trace["z"]["bdata"])
    rows, columns = map(int, trace["z"]["shape"].split(","))
    cells = [None if cell == 255 else cell for cell in raw]
    return [cells[row * columns : (row + 1) * columns] for row in range(rows)]
