"""Debian's slapd, started by a test in a folder of its own, without root."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.debian import PATH

BASE = "dc=example,dc=org"
READER = f"cn=reader,{BASE}"
READER_PASSWORD = "the one that reads"
PASSWORD = "battery staple horse"

CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
allow bind_anon_dn
{tls}
{more}
database mdb
suffix "dc=example,dc=org"
rootdn "cn=root,dc=example,dc=org"
rootpw "root of the directory"
directory "{folder}/data"
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=reader,dc=example,dc=org" read by * none
"""
TLS = """
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
security simple_bind=128
"""
TREE = f"""
dn: {BASE}
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: ou=people,{BASE}
objectClass: organizationalUnit
ou: people

dn: ou=groups,{BASE}
objectClass: organizationalUnit
ou: groups

dn: {READER}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: {READER_PASSWORD}
"""


def person(name: str, *, mail: str = "", password: str = PASSWORD, unit: str = "people") -> str:
    """A Unix user, as a Slurm site has them."""
    return f"""
dn: uid={name},ou={unit},{BASE}
objectClass: inetOrgPerson
objectClass: posixAccount
cn: {name}
sn: {name}
uid: {name}
uidNumber: 1000
gidNumber: 1000
homeDirectory: /home/{name}
userPassword: {password}
""" + (f"mail: {mail}\n" if mail else "")


def group(name: str, *people: str) -> str:
    """A group of names."""
    members = "".join(f"member: {each}\n" for each in people)
    return f"\ndn: cn={name},ou=groups,{BASE}\nobjectClass: groupOfNames\ncn: {name}\n{members}"


def unix_group(name: str, *users: str) -> str:
    """A group of Unix users."""
    members = "".join(f"memberUid: {each}\n" for each in users)
    return (
        f"\ndn: cn={name},ou=groups,{BASE}\nobjectClass: posixGroup\ncn: {name}\n"
        f"gidNumber: 1000\n{members}"
    )


def dn(name: str) -> str:
    return f"uid={name},ou=people,{BASE}"


def group_dn(name: str) -> str:
    return f"cn={name},ou=groups,{BASE}"


class Slapd:
    """A server with the entries that it was given; `url` is its address."""

    def __init__(self, folder: Path, *, scheme: str = "ldap", has_tls: bool = False) -> None:
        self.folder = folder
        self.has_tls = has_tls
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"{scheme}://localhost:{self.port}"
        self.listens = f"{scheme}://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *entries: str, more: str = "") -> None:
        """With these entries and no others; `more` is said in its configuration too."""
        self.stop()
        data = self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        tls = TLS.format(folder=self.folder) if self.has_tls else ""
        configuration = self.folder / "slapd.conf"
        configuration.write_text(CONFIGURATION.format(folder=self.folder, tls=tls, more=more))
        tree = self.folder / "tree.ldif"
        tree.write_text(TREE + "".join(entries))
        program = shutil.which("slapd", path=PATH)
        assert program, "slapd is not here: make test-identity brings it"
        environment = {**os.environ, "PATH": PATH}
        loaded = subprocess.run(
            [program, "-T", "add", "-f", configuration, "-l", tree],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert loaded.returncode == 0, loaded.stderr
        self.process = subprocess.Popen(
            [program, "-f", configuration, "-h", self.listens, "-d", "0"], env=environment
        )
        self._wait()

    def _wait(self) -> None:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("slapd does not listen")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None
