"""A real Prometheus, Debian's package, that scrapes one hub with the rules that ship."""

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.debian import unpacked
from tests.stack.living import free_port

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "rules.yml"
CONFIG = """
global: {{scrape_interval: 5s, scrape_timeout: 5s, evaluation_interval: 1s}}
scrape_configs:
  - job_name: fleetwatch
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ["{hub}"]}}]
rule_files: [{rules}]
"""
SECONDS = 60


@dataclass
class Prometheus:
    """What runs; `hub` is the host and port that it scrapes."""

    folder: Path
    hub: str
    token: str

    def __post_init__(self) -> None:
        program = shutil.which("prometheus") or unpacked("prometheus") / "usr/bin/prometheus"
        secret = self.folder / "token"
        secret.write_text(self.token)
        config = self.folder / "prometheus.yml"
        config.write_text(CONFIG.format(token=secret, hub=self.hub, rules=RULES))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with (self.folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [
                    str(program),
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self.folder}/data",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def read(self, path: str) -> Any:
        """What its API says at the path."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}") as answer:
            return json.load(answer)["data"]

    def target(self, health: str) -> dict[str, Any]:
        """What it scrapes, once that is up, or down."""
        return self._until(
            lambda: self.read("targets")["activeTargets"][0],
            lambda target: target["health"] == health,
        )

    def rules(self) -> dict[str, dict[str, Any]]:
        """Its alerting rules by name, once each was evaluated, and one fires."""
        return self._until(
            lambda: {each["name"]: each for each in self.read("rules")["groups"][0]["rules"]},
            lambda rules: any(each["state"] == "firing" for each in rules.values()),
        )

    def _until(self, look: Callable[[], Any], is_ready: Callable[[Any], bool]) -> Any:
        seen: Any = None
        for _ in range(SECONDS * 5):
            try:
                seen = look()
                if seen and is_ready(seen):
                    return seen
            except (OSError, IndexError):
                pass  # it starts, or has no group yet
            time.sleep(0.2)
        raise AssertionError(f"{seen}\n{(self.folder / 'log').read_text()[-1000:]}")
