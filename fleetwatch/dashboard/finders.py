"""plotly.js comes from the installed plotly package: one source, one version, never a copy in the
tree.
"""

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

PLOTLY = "plotly/plotly.min.js"


def _package_data() -> Path:
    """The folder that holds plotly.min.js. Found without importing plotly, which takes a second."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package plotly is not installed")
    return Path(spec.origin).parent / "package_data"


class PlotlyFinder(BaseFinder):
    """Finds plotly/plotly.min.js and nothing else."""

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path != PLOTLY:
            return [] if find_all else ""
        script = str(_package_data() / "plotly.min.js")
        return [script] if find_all else script

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[Any]:
        storage = FileSystemStorage(location=str(_package_data()))
        storage.prefix = "plotly"  # type: ignore[attr-defined]
        yield "plotly.min.js", storage
