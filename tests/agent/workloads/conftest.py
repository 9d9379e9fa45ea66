from pathlib import Path

import pytest

from tests.agent import fake_proc


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fake_proc.host(tmp_path)
