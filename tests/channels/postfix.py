"""Debian's Postfix, started by a test in a folder of its own: takes mail for the people of a domain
by STARTTLS and a password, and asks us, as greylisting does, whether it comes too soon.
"""

import email
import email.policy
import os
import shutil
import socket
import socketserver
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable
from email.message import EmailMessage
from pathlib import Path

from tests.certificates import certificate
from tests.debian import PATH
from tests.stack.living import free_port

DOMAIN = "people.example"
USER = "fleet"
PASSWORD = "battery staple horse"
GREYLISTED = "451 4.7.1 Greylisted, see you in 5 minutes"
SECONDS = 20

MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
maillog_file = {folder}/mail.log
maillog_file_prefixes = {folder}
myhostname = mx.{domain}
mydestination =
mynetworks =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
local_recipient_maps =
virtual_mailbox_domains = {domain}
virtual_mailbox_base = {folder}/mail
virtual_mailbox_maps = inline:{{ {mailboxes} }}
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
smtpd_tls_security_level = may
smtpd_tls_auth_only = yes
smtpd_tls_cert_file = {folder}/server.pem
smtpd_tls_key_file = {folder}/server.key
smtpd_sasl_auth_enable = yes
smtpd_sasl_path = smtpd
smtpd_sasl_local_domain = {domain}
smtpd_relay_restrictions = permit_sasl_authenticated, reject_unauth_destination
smtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:{policy}
message_size_limit = 200000
"""
MASTER = """
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""
SASL = """
pwcheck_method: auxprop
auxprop_plugin: sasldb
sasldb_path: {folder}/sasldb2
mech_list: PLAIN LOGIN
"""


class _Policy(socketserver.StreamRequestHandler):
    """Postfix' policy protocol (SMTPD_POLICY_README): attributes, an empty line, an action."""

    def handle(self) -> None:
        for line in self.rfile:
            if line == b"\n":
                self.wfile.write(f"action={self.server.answer}\n\n".encode())


class Policy(socketserver.ThreadingTCPServer):
    """Says `answer` to every recipient: DUNNO is yes."""

    daemon_threads = True
    allow_reuse_address = True
    answer = "DUNNO"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Policy)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Postfix:
    """What runs; `port` is where it takes mail."""

    def __init__(self, *people: str, domain: str = DOMAIN) -> None:
        self.people = people or ("ana", "ben")
        self.domain = domain
        # its daemons are other users, who may not look into pytest's folders
        self.folder = Path(tempfile.mkdtemp(prefix="fleetwatch-postfix-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.policy = Policy()
        self.port = free_port()
        self.trusted = self.folder / "server.pem"

    def start(self) -> None:
        """Returns once it answers."""
        for name, user in (("data", "postfix"), ("mail", "nobody"), ("queue", "root")):
            (self.folder / name).mkdir()
            shutil.chown(self.folder / name, user)
        certificate(self.folder)
        self._write_settings()
        self._run("saslpasswd2", *self._password(), given=PASSWORD)
        shutil.chown(self.folder / "sasldb2", "postfix")
        self._run("postfix", "-c", str(self.folder / "etc"), "start")
        self._wait()

    def stop(self) -> None:
        self._run("postfix", "-c", str(self.folder / "etc"), "stop")
        self.policy.shutdown()
        self.policy.server_close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def mails(self, count: int, *, to: str = "ana") -> list[EmailMessage]:
        """What lies in the person's maildir, once that is as many, the oldest first."""
        fresh = self.folder / "mail" / to / "new"
        for _ in range(SECONDS * 20):
            if fresh.is_dir() and len(list(fresh.iterdir())) >= count:
                break
            time.sleep(0.05)
        return _read(fresh.iterdir() if fresh.is_dir() else ())

    def everybodys(self) -> list[EmailMessage]:
        """All that was taken so far, once it lies in maildirs, the oldest first."""
        queues = [self.folder / "queue" / name for name in ("incoming", "active")]
        for _ in range(SECONDS * 20):
            if not any(each.is_file() for queue in queues for each in queue.rglob("*")):
                break
            time.sleep(0.05)
        return _read((self.folder / "mail").glob("*/new/*"))

    def forget(self) -> None:
        """Every maildir is empty again, and nobody is greylisted."""
        self.policy.answer = "DUNNO"
        for folder in (self.folder / "mail").iterdir():
            shutil.rmtree(folder)

    def _write_settings(self) -> None:
        facts = {
            "folder": self.folder,
            "domain": self.domain,
            "mailboxes": ", ".join(f"{name}@{self.domain}={name}/" for name in self.people),
            "port": self.port,
            "policy": self.policy.server_address[1],
        }
        for name, text in (("etc/main.cf", MAIN), ("etc/master.cf", MASTER)):
            self._write(name, text.format(**facts))
        self._write("etc/sasl/smtpd.conf", SASL.format(**facts))

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.lstrip())

    def _password(self) -> list[str]:
        """Arguments that make our user's."""
        return ["-p", "-c", "-f", str(self.folder / "sasldb2"), "-u", self.domain, USER]

    def _run(self, *command: str, given: str = "") -> None:
        environment = {**os.environ, "PATH": PATH}
        done = subprocess.run(
            command, input=given, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"

    def _wait(self) -> None:
        for _ in range(SECONDS * 20):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError((self.folder / "mail.log").read_text()[-1000:])


def _read(files: Iterable[Path]) -> list[EmailMessage]:
    """By when they were delivered, which their names begin with."""
    return [
        email.message_from_bytes(each.read_bytes(), policy=email.policy.default)
        for each in sorted(files, key=lambda each: each.name)
    ]
