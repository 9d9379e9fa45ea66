"""npm's OpenID Connect provider, run by node, and how a person logs in by it."""

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import Page

from tests.identity.prepare import FOLDER

NAME = "Example Inc."  # of the provider, on our log-in page
SCRIPT = Path(__file__).with_name("provider.mjs")


class Provider:
    """The running provider, with the accounts that it was given."""

    def __init__(self, callback: str = "", environment: Mapping[str, str] | None = None) -> None:
        self.callback = callback
        self.environment = {**os.environ, "IDENTITY_FOLDER": str(FOLDER), **(environment or {})}
        with socket.create_server(("localhost", 0)) as free:
            self.port = free.getsockname()[1]
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def start(self, **accounts: dict[str, object]) -> None:
        self.stop()
        self.process = subprocess.Popen(
            ["node", str(SCRIPT), str(self.port), self.callback, json.dumps(accounts)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        lines = []
        while (line := self.process.stdout.readline()) != "ready\n":
            assert line, "".join(lines)
            lines.append(line)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def log_in(page: Page, site: str, name: str = "ann") -> None:
    """As a person does: our page, the provider's pages, back."""
    page.context.clear_cookies()
    page.goto(f"{site}/accounts/login/")
    page.click(f"text={NAME}")
    page.fill("input[name=login]", name)
    page.fill("input[name=password]", "whatever the provider asks for")
    page.click("button[type=submit]")
    page.click("button[type=submit]")  # may FleetWatch know it?
    page.wait_for_url(f"{site}/**")
