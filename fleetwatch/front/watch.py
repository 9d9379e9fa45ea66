"""Whether the servers behind us answer: asked all the time, so that nobody has to find out by
waiting.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

ASK_EVERY_S = 0.5
# A server under load answers within milliseconds; one that is stopped or cut off never does.
LOST_AFTER_S = 3.0

log = structlog.get_logger(__name__)


class Watch:
    """`is_away` while the server does not answer; `on_lost` is called while it does not."""

    def __init__(
        self, name: str, ask: Callable[[], object], *, on_lost: Callable[[], None]
    ) -> None:
        self.is_away = False
        self._name = name
        self._ask = ask
        self._on_lost = on_lost
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-watch")

    def close(self) -> None:
        """The thread is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def watch_for_ever(self) -> None:
        """Asks, and asks again."""
        loop = asyncio.get_running_loop()
        while True:
            answer = loop.run_in_executor(self._thread, self._ask)
            await asyncio.wait({answer}, timeout=LOST_AFTER_S)
            if not answer.done():
                self._lost("no answer")
                await asyncio.wait({answer})
            error = answer.exception()
            if error is None:
                self._came_back()
            else:
                self._lost(type(error).__name__)
            await asyncio.sleep(ASK_EVERY_S)

    def _lost(self, reason: str) -> None:
        if not self.is_away:
            log.warning("server lost", server=self._name, reason=reason)
        self.is_away = True
        self._on_lost()

    def _came_back(self) -> None:
        if self.is_away:
            log.info("server is back", server=self._name)
        self.is_away = False
