import base64
import csv
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from fleetwatch.ingest import agent_package
from release import agent_dist

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
MOST_EXPOSURE = 3.0


def _unit() -> str:
    return agent_package.unit(python="/usr/bin/python3", home="/usr/lib/fleetwatch-agent")


def test_make_agent_writes_what_can_be_installed_with_its_checksums(tmp_path):
    agent_dist.write(tmp_path / "dist")

    said = subprocess.run(
        [str(tmp_path / "dist/fleetwatch-agent.pyz"), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"fleetwatch-agent {agent_package.version()}\n"
    listed = dict(
        line.split("  ")[::-1] for line in (tmp_path / "dist/SHA256SUMS").read_text().splitlines()
    )
    assert set(listed) == {path.name for path in (tmp_path / "dist").iterdir()} - {"SHA256SUMS"}
    assert all(
        hashlib.sha256((tmp_path / "dist" / name).read_bytes()).hexdigest() == found
        for name, found in listed.items()
    )
    assert listed["fleetwatch-agent.pyz"] == agent_package.checksum()


def test_the_wheel_is_installed_by_pip_and_runs(tmp_path):
    agent_dist.write(tmp_path)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True
    )
    folder = next((tmp_path / "venv/lib").glob("python3*")) / "site-packages"

    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(tmp_path / "venv/bin/python"),
        "install",
        "--no-deps",
        "--no-index",
        "-q",
    ]
    subprocess.run([*pip, str(tmp_path / agent_dist.wheel_name())], check=True, capture_output=True)

    said = subprocess.run(
        [str(tmp_path / "venv/bin/fleetwatch-agent"), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"fleetwatch-agent {agent_package.version()}\n"
    metadata = (
        folder / f"fleetwatch_agent-{agent_package.version()}.dist-info/METADATA"
    ).read_text()
    assert "Requires-Python: >=3.8\n" in metadata
    assert "Requires-Dist: nvidia-ml-py" in metadata


def test_the_wheel_records_every_file_as_it_is():
    archive = zipfile.ZipFile(io.BytesIO(agent_dist.wheel()))

    rows = list(
        csv.reader(
            archive.read(f"fleetwatch_agent-{agent_package.version()}.dist-info/RECORD")
            .decode()
            .splitlines()
        )
    )

    assert sorted(name for name, _, _ in rows) == sorted(archive.namelist())
    for name, digest, size in rows[:-1]:
        content = archive.read(name)
        assert (
            digest
            == "sha256="
            + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        )
        assert int(size) == len(content)


@pytest.mark.parametrize(
    ("tool", "package", "line"),
    [
        (
            "dpkg-deb",
            "fleetwatch-agent_*.deb",
            "no Debian package: dpkg-deb is not installed (apt or dnf install dpkg)",
        ),
        (
            "rpmbuild",
            "fleetwatch-agent-*.rpm",
            "no RPM: rpmbuild is not installed (apt install rpm, or dnf install rpm-build)",
        ),
    ],
)
def test_what_can_not_be_built_here_is_one_clear_line_and_the_rest_is_built(
    tmp_path, tool, package, line
):
    others = tmp_path / "bin"
    others.mkdir()
    for name in {"dpkg-deb", "rpmbuild"} - {tool}:
        path = shutil.which(name)
        if path:
            (others / name).symlink_to(path)

    command = [sys.executable, "-m", "release.agent_dist", str(tmp_path / "dist")]
    done = subprocess.run(
        command,
        cwd=agent_package.ROOT,
        env={**os.environ, "PATH": str(others)},
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert line in done.stdout.splitlines()
    assert not list((tmp_path / "dist").glob(package))
    assert (tmp_path / "dist/fleetwatch-agent.pyz").is_file()
    assert (tmp_path / "dist" / agent_dist.wheel_name()).is_file()


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_script_pleases_shellcheck(tmp_path):
    (tmp_path / "install.sh").write_text(agent_package.install_script())

    done = subprocess.run(
        ["shellcheck", "-s", "sh", str(tmp_path / "install.sh")], capture_output=True, text=True
    )

    assert done.stdout == ""


def test_the_unit_lets_the_driver_in_and_comes_back_for_ever():
    settings = [line for line in _unit().splitlines() if line and not line.startswith("#")]

    assert not [
        line
        for line in settings
        if line.startswith(
            ("PrivateDevices", "ProtectKernelLogs", "MemoryDenyWriteExecute", "PrivateNetwork")
        )
    ]
    assert {
        "DevicePolicy=closed",
        "DeviceAllow=char-nvidia* rw",
        "DeviceAllow=/dev/char/195:255 rw",
        "DeviceAllow=/dev/kmsg r",
    } <= set(settings)
    assert {f"DeviceAllow=/dev/char/195:{minor} rw" for minor in range(16)} <= set(settings)
    assert {
        "Restart=always",
        "StartLimitIntervalSec=0",
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "ProtectProc=default",
    } <= set(settings)
    granted = next(line for line in settings if line.startswith("AmbientCapabilities="))
    assert granted == "AmbientCapabilities=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_SYSLOG"
    assert "MemoryMax=256M" in settings
    assert "@" not in "".join(line for line in settings if not line.startswith("SystemCallFilter"))


@needs_systemd
def test_systemd_finds_the_unit_right_and_hardly_exposed(tmp_path):
    unit = tmp_path / "fleetwatch-agent.service"
    unit.write_text(agent_package.unit(python=sys.executable, home=str(tmp_path)))

    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True
    )
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        env={"LC_ALL": "C.UTF-8"},
    )

    assert [
        line for line in checked.stderr.splitlines() if "fleetwatch-agent.service" in line
    ] == []
    found = re.search(
        r"Overall exposure level for fleetwatch-agent.service: ([0-9.]+)", judged.stdout
    )
    assert found is not None, judged.stderr
    assert float(found.group(1)) <= MOST_EXPOSURE
