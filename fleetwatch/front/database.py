"""How the database is asked whether it answers: by a connection of its own."""

import psycopg
from django.db import connection
from psycopg.conninfo import make_conninfo

CONNECT_TIMEOUT_S = 3


def conninfo() -> str:
    """How libpq reaches the database of the settings."""
    parameters = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port", "target_session_attrs", "sslmode")
    return make_conninfo(**{name: parameters[name] for name in names if parameters.get(name)})


class Probe:
    """One connection, made again when it broke."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection | None = None

    def ask(self) -> None:
        """Returns when the database answered. Raises psycopg.Error."""
        try:
            if self._connection is None:
                # nothing prepared: a pooler has no session to keep it in
                self._connection = psycopg.connect(
                    self._conninfo,
                    autocommit=True,
                    prepare_threshold=None,
                    connect_timeout=CONNECT_TIMEOUT_S,
                )
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            broken = self._connection
            self._connection = None
            if broken is not None:
                broken.close()
            raise

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
