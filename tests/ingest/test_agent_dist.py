import base64
import csv
import hashlib
import io
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fleetwatch.ingest import agent_dist, agent_package

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
MOST_EXPOSURE = 3.0


def _unit() -> str:
    return agent_package.unit(python="/usr/bin/python3", home="/usr/lib/fleetwatch-agent")


def test_make_agent_writes_what_can_be_installed_with_its_checksums(tmp_path):
    agent_dist.write(tmp_path / "dist")

    said = subprocess.run([str(tmp_path / "dist/fleetwatch-agent.pyz"), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"fleetwatch-agent {agent_package.version()}\n"
    listed = dict(line.split("  ")[::-1] for line in (tmp_path / "dist/SHA256SUMS").read_text().splitlines())
    assert set(listed) == {path.name for path in (tmp_path / "dist").iterdir()} - {"SHA256SUMS"}
    assert all(hashlib.sha256((tmp_path / "dist" / name).read_bytes()).hexdigest() == found for name, found in listed.items())
    assert listed["fleetwatch-agent.pyz"] == agent_package.checksum()


def test_the_wheel_is_installed_by_pip_and_runs(tmp_path):
    agent_dist.write(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    folder = next((tmp_path / "venv/lib").glob("python3*")) / "site-packages"

    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "venv/bin/python"), "install", "--no-deps", "--no-index", "-q"]
    subprocess.run([*pip, str(tmp_path / agent_dist.wheel_name())], check=True, capture_output=True)

    said = subprocess.run([str(tmp_path / "venv/bin/fleetwatch-agent"), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"fleetwatch-agent {agent_package.version()}\n"
    metadata = (folder / f"fleetwatch_agent-{agent_package.version()}.dist-info/METADATA").read_text()
    assert "Requires-Python: >=3.8\n" in metadata
    assert "Requires-Dist: nvidia-ml-py" in metadata


def test_the_wheel_records_every_file_as_it_is():
    archive = zipfile.ZipFile(io.BytesIO(agent_dist.wheel()))

    rows = list(csv.reader(archive.read(f"fleetwatch_agent-{agent_package.version()}.dist-info/RECORD").decode().splitlines()))

    assert sorted(name for name, _, _ in rows) == sorted(archive.namelist())
    for name, digest, size in rows[:-1]:
        content = archive.read(name)
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert int(size) == len(content)


@needs_dpkg
def test_the_debian_package_holds_file_unit_settings_and_licences(tmp_path):
    (tmp_path / "agent.deb").write_bytes(agent_dist.deb())

    def dpkg(*arguments: str) -> str:
        return subprocess.run(["dpkg-deb", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    about = dpkg("-I", "agent.deb")
    listed = {line.split()[5]: line.split()[:2] for line in dpkg("-c", "agent.deb").splitlines()}
    dpkg("-x", "agent.deb", "root")
    dpkg("-e", "agent.deb", "control")

    assert f"Version: {agent_package.version()}\n" in about
    assert "Depends: python3 (>= 3.8)\n" in about
    assert listed["./etc/fleetwatch-agent/environment"] == ["-rw-------", "root/root"]  # it will hold a token
    assert listed["./etc/fleetwatch-agent/"] == ["drwx------", "root/root"]
    assert listed["./usr/lib/fleetwatch-agent/fleetwatch-agent.pyz"] == ["-rwxr-xr-x", "root/root"]
    assert (tmp_path / "root/usr/lib/fleetwatch-agent/fleetwatch-agent.pyz").read_bytes() == agent_package.build()
    assert (tmp_path / "root/usr/bin/fleetwatch-agent").readlink() == Path("/usr/lib/fleetwatch-agent/fleetwatch-agent.pyz")
    assert (tmp_path / "root/lib/systemd/system/fleetwatch-agent.service").read_text() == _unit()
    assert (tmp_path / "control/conffiles").read_text() == "/etc/fleetwatch-agent/environment\n"
    licences = (tmp_path / "root/usr/share/doc/fleetwatch-agent/copyright").read_text()
    assert "Apache License" in licences
    assert "Redistribution and use" in licences
    settings = (tmp_path / "root/etc/fleetwatch-agent/environment").read_text()
    assert all(line.startswith("#") for line in settings.splitlines())


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="they would talk to this host's systemd")
@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_the_debian_scripts_pass_without_a_running_systemd(tmp_path, name):
    script = agent_dist.DEBIAN / name

    done = subprocess.run(["sh", str(script), "configure" if name == "postinst" else "remove", "0.9"], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_scripts_please_shellcheck(tmp_path):
    (tmp_path / "install.sh").write_text(agent_package.install_script())
    scripts = [tmp_path / "install.sh", *(agent_dist.DEBIAN / name for name in ("postinst", "prerm", "postrm"))]

    done = subprocess.run(["shellcheck", "-s", "sh", *map(str, scripts)], capture_output=True, text=True)

    assert done.stdout == ""


def test_the_unit_lets_the_driver_in_and_comes_back_for_ever():
    settings = [line for line in _unit().splitlines() if line and not line.startswith("#")]

    assert not [
        line for line in settings if line.startswith(("PrivateDevices", "ProtectKernelLogs", "MemoryDenyWriteExecute", "PrivateNetwork"))
    ]
    assert {"DevicePolicy=closed", "DeviceAllow=char-nvidia* rw", "DeviceAllow=/dev/char/195:255 rw", "DeviceAllow=/dev/kmsg r"} <= set(
        settings
    )
    assert {f"DeviceAllow=/dev/char/195:{minor} rw" for minor in range(16)} <= set(settings)
    assert {"Restart=always", "StartLimitIntervalSec=0", "DynamicUser=yes", "NoNewPrivileges=yes", "ProtectProc=default"} <= set(settings)
    granted = next(line for line in settings if line.startswith("AmbientCapabilities="))
    assert granted == "AmbientCapabilities=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_SYSLOG"
    assert "MemoryMax=256M" in settings
    assert "@" not in "".join(line for line in settings if not line.startswith("SystemCallFilter"))


@needs_systemd
def test_systemd_finds_the_unit_right_and_hardly_exposed(tmp_path):
    unit = tmp_path / "fleetwatch-agent.service"
    unit.write_text(agent_package.unit(python=sys.executable, home=str(tmp_path)))

    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        env={"LC_ALL": "C.UTF-8"},
    )

    assert [line for line in checked.stderr.splitlines() if "fleetwatch-agent.service" in line] == []
    found = re.search(r"Overall exposure level for fleetwatch-agent.service: ([0-9.]+)", judged.stdout)
    assert found is not None, judged.stderr
    assert float(found.group(1)) <= MOST_EXPOSURE
