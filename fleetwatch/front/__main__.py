"""`python -m fleetwatch.front`: the web server."""

import argparse
import logging

import uvicorn

from fleetwatch.front.connections import NEXT_S

STOP_WITHIN_S = 2


def main() -> None:
    """Serves until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(
        prog="python -m fleetwatch.front", description="FleetWatch's web server"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    given = parser.parse_args()
    # what strangers send wrong is no event of ours
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    uvicorn.run(
        "fleetwatch.front.running:application",
        host=given.host,
        port=given.port,
        workers=given.workers,
        http="fleetwatch.front.running:Protocol",
        ws="none",
        loop="uvloop",
        interface="asgi3",
        lifespan="on",
        log_config=None,
        access_log=False,
        # X-Forwarded-For is read by protocol.py, and believed of trusted proxies alone
        proxy_headers=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=int(NEXT_S),
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )


if __name__ == "__main__":
    main()
