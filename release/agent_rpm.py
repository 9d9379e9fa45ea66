"""The agent as an RPM, for RHEL, Rocky, Alma and SUSE: an edited settings file stays as it is."""

import tempfile
from pathlib import Path

from fleetwatch.ingest import agent_package
from release import agent_tree

SPEC = agent_tree.SOURCES / "rpm" / "fleetwatch-agent.spec"


def file_name(version: str) -> str:
    return f"fleetwatch-agent-{version}-1.noarch.rpm"


def build(version: str) -> bytes:
    """The package. Raises CalledProcessError when rpmbuild refuses."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        agent_tree.lay_out(tree)
        agent_tree.put(
            tree / "etc/fleetwatch-agent/environment", agent_tree.SETTINGS.read_bytes(), 0o600
        )
        for name, text in agent_package.notices().items():
            agent_tree.put(tree / "usr/share/licenses/fleetwatch-agent" / name, text)
        agent_tree.settle(tree)
        options = ["-bb", "--quiet", "--target", "noarch", *_defines(scratch, tree, version)]
        agent_tree.run(["rpmbuild", *options, str(SPEC)], home=scratch)
        return (Path(scratch) / "RPMS" / "noarch" / file_name(version)).read_bytes()


def _defines(scratch: str, tree: Path, version: str) -> list[str]:
    """Of rpmbuild's settings those that would tell who built it when and on what; and a payload
    that old ones read.
    """
    settings = {
        "_topdir": scratch,
        "agent_tree": str(tree),
        "agent_version": version,
        "_buildhost": "fleetwatch.invalid",
        "use_source_date_epoch_as_buildtime": "1",
        "clamp_mtime_to_source_date_epoch": "1",
        "_binary_payload": "w9.gzdio",
        "_build_id_links": "none",
        "__os_install_post": "%{nil}",
        "optflags": "%{nil}",
        "packager": agent_tree.MAINTAINER,
    }
    return [part for name, value in settings.items() for part in ("--define", f"{name} {value}")]
