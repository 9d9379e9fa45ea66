from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.hub import Hub
from tests.agent.nvml_driver import Driver, build


@pytest.fixture
def hub():
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("old-nvml"), "-DOLD_DRIVER")


@pytest.fixture
def driver(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    driver = Driver(nvml_library, tmp_path / "state", monkeypatch)
    yield driver
    driver.close()


@pytest.fixture
def old_driver(old_nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    driver = Driver(old_nvml_library, tmp_path / "state", monkeypatch)
    yield driver
    driver.close()
