from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.workloads.slurm.client import Slurm
from agent.workloads.slurm.command import Commands
from agent.workloads.slurm.hpc_files import HPCFiles
from tests.agent.fake_slurm import FakeSlurm
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
def old_driver(
    old_nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Driver]:
    driver = Driver(old_nvml_library, tmp_path / "state", monkeypatch)
    yield driver
    driver.close()


@pytest.fixture
def fake(tmp_path):
    fake = FakeSlurm(tmp_path / "bin")
    fake.node()
    return fake


@pytest.fixture
def books(fake, tmp_path):
    """Slurm's books of node n01, with the fake's commands and folders of the test."""

    def open_books(**options):
        (tmp_path / "etc").mkdir(exist_ok=True)
        files = HPCFiles(str(tmp_path / "gpustat"), [str(tmp_path / "dcgm")])
        commands = Commands(fake.environment, folders=(), timeout_s=options.pop("timeout_s", 5.0))
        return Slurm(
            options.pop("nodes", ["n01"]),
            commands=commands,
            files=files,
            conf_folders=[str(tmp_path / "etc")],
            cgroup_root=str(tmp_path / "cgroup"),
            **options,
        )

    return open_books
