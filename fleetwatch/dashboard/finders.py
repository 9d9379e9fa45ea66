"""plotly.js is never a copy in the tree: it comes from npm as far as our charts need it (the
cartesian bundle, a third of the whole), laid beside the Python packages by deploy/bootstrap.py or
the Dockerfile; where npm was not there, whole from the installed Python package.
"""

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

PLOTLY = "plotly/plotly.min.js"


def folder(beside: Path = Path(sys.prefix)) -> Path:
    """The folder that holds plotly.min.js, of an environment in the folder `beside`.

    Raises FileNotFoundError where the package plotly is not installed either.
    """
    small = beside / "share" / "plotly"
    return small if (small / "plotly.min.js").exists() else _package_data()


def _package_data() -> Path:
    """The package's folder, found without importing plotly, which takes a second."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package plotly is not installed")
    return Path(spec.origin).parent / "package_data"


class PlotlyFinder(BaseFinder):
    """Finds plotly/plotly.min.js and nothing else."""

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path != PLOTLY:
            return [] if find_all else ""
        script = str(folder() / "plotly.min.js")
        return [script] if find_all else script

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[Any]:
        storage = FileSystemStorage(location=str(folder()))
        storage.prefix = "plotly"  # type: ignore[attr-defined]
        yield "plotly.min.js", storage
