"""A real Alertmanager, Debian's package, in a namespace of its own: its templates lie below
/usr/share, which nothing is written to.
"""

import json
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.debian import UnavailableError, unpacked
from tests.notify.post_server import PostServer
from tests.stack.living import free_port

CONFIG = """
route:
  receiver: hook
  group_by: [alertname, user]
  group_wait: 300ms
  group_interval: 300ms
  repeat_interval: 1h
receivers:
  - name: hook
    webhook_configs:
      - url: {url}
        send_resolved: true
"""
SECONDS = 20


@dataclass
class Alertmanager:
    """What runs, and what it told its receiver."""

    folder: Path
    hook: PostServer = field(default_factory=lambda: PostServer(lambda _: (200, {}, "")))

    def __post_init__(self) -> None:
        root = unpacked("prometheus-alertmanager")
        config = self.folder / "alertmanager.yml"
        config.write_text(CONFIG.format(url=self.hook.url))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        bound = 'mount --bind "$1/usr/share" /usr/share && shift && exec "$@"'
        self.command = [
            *("unshare", "--map-root-user", "--mount", "sh", "-c", bound, "sh", str(root)),
            str(root / "usr/bin/prometheus-alertmanager"),
            f"--config.file={config}",
            f"--storage.path={self.folder}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        self.start()

    def start(self) -> None:
        """Raises UnavailableError where namespaces can't be had, or it does not start."""
        log = (self.folder / "log").open("w")
        try:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=log)
        except FileNotFoundError as error:
            raise UnavailableError("there is no unshare") from error
        for _ in range(SECONDS * 20):
            if self._process.poll() is not None:
                why = (self.folder / "log").read_text()[-300:]
                raise UnavailableError(f"Alertmanager does not start: {why}")
            if self._is_ready():
                return
            time.sleep(0.05)
        raise UnavailableError(f"Alertmanager was not ready after {SECONDS} s")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self.kill()
        self.hook.stop()

    def alerts(self) -> list[dict[str, Any]]:
        """What is active there."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts?active=true") as answer:
            return json.load(answer)

    def told(self, count: int) -> list[dict[str, Any]]:
        """What its receiver got, once that are as many."""
        for _ in range(SECONDS * 20):
            if len(self.hook.requests) >= count:
                break
            time.sleep(0.05)
        return [json.loads(each.body) for each in self.hook.requests]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready"):
                return True
        except OSError:
            return False
