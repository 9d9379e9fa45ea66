"""The Debian package, installed, upgraded and purged by the real dpkg below a folder, with nobody
to answer a question.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from fleetwatch.ingest import agent_package
from release import agent_deb, agent_tree

pytestmark = pytest.mark.skipif(
    not (shutil.which("dpkg") and shutil.which("deb-systemd-helper")),
    reason="dpkg or init-system-helpers are not installed",
)
SETTINGS = "etc/fleetwatch-agent/environment"
ENABLED = "etc/systemd/system/multi-user.target.wants/fleetwatch-agent.service"
TOLD = "FLEETWATCH_SERVER=https://hub.example.org\nFLEETWATCH_TOKEN=secret\n"


class Host:
    """A folder that stands for a host; its dpkg knows no other package."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "host"
        (self.root / "var/lib/dpkg/info").mkdir(parents=True)
        (self.root / "var/lib/dpkg/updates").mkdir()
        (self.root / "var/lib/dpkg/status").touch()

    def dpkg(self, *arguments: "str | Path") -> str:
        """What it printed. It must end well, though nobody answers questions."""
        # the package's scripts run with this folder for their root
        force = (
            "--force-not-root",
            "--force-script-chrootless",
            "--force-depends",
            "--force-bad-path",
        )
        command = ["dpkg", f"--root={self.root}", "--log=/dev/null", *force, *map(str, arguments)]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def status(self) -> str:
        shown = [
            "dpkg-query",
            f"--admindir={self.root}/var/lib/dpkg",
            "-W",
            "-f=${db:Status-Abbrev}${Version}",
            "fleetwatch-agent",
        ]
        return subprocess.run(shown, capture_output=True, text=True, check=True).stdout

    @property
    def is_enabled(self) -> bool:
        return (self.root / ENABLED).is_symlink()


@pytest.fixture
def host(tmp_path) -> Host:
    return Host(tmp_path)


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    return _packed(tmp_path_factory.mktemp("deb"), agent_package.version())


def _packed(folder: Path, version: str) -> Path:
    path = folder / agent_deb.file_name(version)
    path.write_bytes(agent_deb.build(version))
    return path


def _with_conffile(folder: Path, package: Path) -> Path:
    """A release like those before: its settings were a conffile."""
    tree = folder / "conffile"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    (tree / "etc/fleetwatch-agent").mkdir(parents=True)
    (tree / SETTINGS).write_text("# settings of an older release\n")
    (tree / "DEBIAN/conffiles").write_text(f"/{SETTINGS}\n")
    control = (
        (tree / "DEBIAN/control")
        .read_text()
        .replace(f"Version: {agent_package.version()}", "Version: 0.9.0")
    )
    (tree / "DEBIAN/control").write_text(control)
    older = folder / "older.deb"
    subprocess.run(["dpkg-deb", "--build", tree, older], check=True, capture_output=True)
    return older


def test_the_package_holds_file_unit_page_and_licences(tmp_path, package):
    subprocess.run(["dpkg-deb", "-R", package, tmp_path / "tree"], check=True)
    tree = tmp_path / "tree"
    listed = subprocess.run(
        ["dpkg-deb", "-c", package], capture_output=True, text=True, check=True
    ).stdout.splitlines()

    assert f"Version: {agent_package.version()}\n" in (tree / "DEBIAN/control").read_text()
    assert (
        tree / "usr/lib/fleetwatch-agent/fleetwatch-agent.pyz"
    ).read_bytes() == agent_package.build()
    assert (
        tree / "usr/bin/fleetwatch-agent"
    ).resolve() == tree / "usr/lib/fleetwatch-agent/fleetwatch-agent.pyz"
    assert (
        tree / "usr/lib/systemd/system/fleetwatch-agent.service"
    ).read_text() == agent_package.unit(python="/usr/bin/python3", home="/usr/lib/fleetwatch-agent")
    assert (tree / "usr/share/man/man1/fleetwatch-agent.1.gz").is_file()
    licences = (tree / "usr/share/doc/fleetwatch-agent/copyright").read_text()
    assert "/usr/share/common-licenses/Apache-2.0" in licences
    assert "Redistribution and use in source and binary forms" in licences
    assert not (tree / "DEBIAN/conffiles").exists()
    assert not (tree / "etc").exists()
    assert {line.split()[1] for line in listed} == {"root/root"}


@pytest.mark.skipif(shutil.which("lintian") is None, reason="lintian is not installed")
def test_lintian_has_neither_errors_nor_warnings(package):
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "warning", str(package)],
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_its_scripts_please_shellcheck():
    scripts = [str(agent_deb.DEBIAN / name) for name in agent_deb.SCRIPTS]

    done = subprocess.run(["shellcheck", "-s", "sh", *scripts], capture_output=True, text=True)

    assert done.stdout == ""


def test_a_first_installation_writes_settings_for_root_alone_and_says_what_to_do(host, package):
    said = host.dpkg("-i", package)

    settings = host.root / SETTINGS
    assert settings.read_bytes() == agent_tree.SETTINGS.read_bytes()
    assert all(line.startswith("#") for line in settings.read_text().splitlines())
    assert settings.stat().st_mode & 0o777 == 0o600
    assert settings.parent.stat().st_mode & 0o777 == 0o700
    assert (
        "name the hub in /etc/fleetwatch-agent/environment, then: systemctl enable --now"
        " fleetwatch-agent" in said
    )
    assert not host.is_enabled


def test_settings_that_were_there_first_are_kept_and_the_agent_is_enabled(host, package):
    settings = host.root / SETTINGS
    settings.parent.mkdir(parents=True)
    settings.write_text(TOLD)

    host.dpkg("-i", package)

    assert settings.read_text() == TOLD
    assert host.is_enabled


def test_an_upgrade_whose_settings_read_otherwise_asks_nobody_and_keeps_the_hosts(
    host, package, tmp_path, monkeypatch
):
    host.dpkg("-i", package)
    (host.root / SETTINGS).write_text(TOLD)
    monkeypatch.setattr(agent_tree, "SETTINGS", tmp_path / "environment")
    (tmp_path / "environment").write_text("# other comments\n")

    host.dpkg("-i", _packed(tmp_path, "99.0.0"))

    assert (host.root / SETTINGS).read_text() == TOLD
    assert [path.name for path in (host.root / SETTINGS).parent.iterdir()] == ["environment"]
    assert host.status() == "ii 99.0.0"


def test_an_upgrade_from_a_release_whose_settings_were_a_conffile_asks_nobody(
    host, package, tmp_path
):
    host.dpkg("-i", _with_conffile(tmp_path, package))
    (host.root / SETTINGS).write_text(TOLD)

    host.dpkg("-i", package)

    assert (host.root / SETTINGS).read_text() == TOLD
    assert [path.name for path in (host.root / SETTINGS).parent.iterdir()] == ["environment"]
    assert host.status() == f"ii {agent_package.version()}"


@pytest.mark.parametrize("disabled", [False, True])
def test_an_upgrade_leaves_the_agent_enabled_or_not_as_the_admin_had_it(
    host, package, tmp_path, disabled
):
    (host.root / SETTINGS).parent.mkdir(parents=True)
    (host.root / SETTINGS).write_text(TOLD)
    host.dpkg("-i", package)
    if disabled:
        (host.root / ENABLED).unlink()

    host.dpkg("-i", _packed(tmp_path, "99.0.0"))

    assert host.is_enabled is not disabled


def test_removing_keeps_settings_and_queue_and_installing_again_goes_on(host, package):
    (host.root / SETTINGS).parent.mkdir(parents=True)
    (host.root / SETTINGS).write_text(TOLD)
    host.dpkg("-i", package)
    queued = host.root / "var/lib/fleetwatch-agent/1.batch"
    queued.parent.mkdir()
    queued.write_bytes(b"batch")

    host.dpkg("-r", "fleetwatch-agent")

    assert not (host.root / "usr/lib/fleetwatch-agent").exists()
    assert (host.root / SETTINGS).read_text() == TOLD
    assert queued.read_bytes() == b"batch"

    host.dpkg("-i", package)

    assert host.is_enabled
    assert queued.read_bytes() == b"batch"


def test_purging_leaves_neither_settings_token_queue_nor_links(host, package):
    (host.root / SETTINGS).parent.mkdir(parents=True)
    (host.root / SETTINGS).write_text(TOLD)
    host.dpkg("-i", package)
    for folder in ("var/lib/fleetwatch-agent", "var/lib/private/fleetwatch-agent"):
        (host.root / folder).mkdir(parents=True)
        (host.root / folder / "token").write_text("secret")

    host.dpkg("-P", "fleetwatch-agent")

    left = [path for path in host.root.rglob("*") if not path.is_dir() or path.is_symlink()]
    assert [path for path in left if "var/lib/dpkg" not in str(path)] == []
    assert [path for path in host.root.rglob("*") if "fleetwatch" in path.name] == []
