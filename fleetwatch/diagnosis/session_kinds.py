"""What an interactive job is run by, told by its name and its processes. Pure."""

from collections.abc import Iterable

JUPYTER = "jupyter"
VS_CODE = "vscode"
# An editor starts kernels of its own, to which no setting of a Jupyter server applies: it is asked
# first.
TOLD_BY = {
    VS_CODE: ("vscode", "vs-code", "code-server", "cursor-server"),
    JUPYTER: ("jupyter", "ipykernel", "notebook"),
}


def session_of(names: Iterable[str]) -> str:
    """JUPYTER or VS_CODE; "" where none of these names says."""
    words = " ".join(names).lower()
    return next(
        (session for session, marks in TOLD_BY.items() if any(m in words for m in marks)), ""
    )
