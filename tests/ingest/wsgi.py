"""A client of the WSGI door, with as much of Django's test client as the tests of batches use."""

import io
import json
from types import SimpleNamespace

from django.core import signals
from django.core.handlers.wsgi import WSGIHandler
from django.db import close_old_connections

from fleetwatch.ingest.door import PATH, Door, Head, store_group
from fleetwatch.ingest.taken_forms import FORMS


class DoorClient:
    """Sends to the door, one request after another; `short` counts what Django did not see."""

    def __init__(self):
        self.long = 0
        self.requests = 0
        handler = WSGIHandler()

        def django(environ, start_response):
            self.long += 1
            return handler(environ, start_response)

        self.door = Door(django)

    @property
    def short(self):
        return self.requests - self.long

    def get(self, path):
        return self._request("GET", path, b"", {})

    def post(self, path, body, *, content_type, headers):
        return self._request(
            "POST",
            path,
            body,
            {"content-type": content_type, "content-length": str(len(body)), **headers},
        )

    def _request(self, method, path, body, headers):
        self.requests += 1
        names = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
        for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            names[name] = names.pop(f"HTTP_{name}", "")
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": "",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": "localhost",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            **names,
        }
        answered = {}

        def start_response(status, given, exc_info=None):
            answered.update(status_code=int(status.split()[0]), headers=dict(given))

        # as Django's test client does: the test's transaction outlives the request
        signals.request_started.disconnect(close_old_connections)
        signals.request_finished.disconnect(close_old_connections)
        try:
            parts = self._answer(environ, start_response)
            content = b"".join(parts)
            if hasattr(parts, "close"):
                parts.close()
        finally:
            signals.request_started.connect(close_old_connections)
            signals.request_finished.connect(close_old_connections)
        return Answer(content=content, **answered)

    def _answer(self, environ, start_response):
        """As the front does it, each batch in a group of its own."""
        if (environ["REQUEST_METHOD"], environ["PATH_INFO"]) != ("POST", PATH):
            return self.door.django(environ, start_response)
        head = Head.of_environ(environ)
        sender = self.door.heard(head)
        offered = sender and self.door.offered(sender, head, environ["wsgi.input"].getvalue())
        windows = store_group([offered])[0] if offered else 0
        if not windows:
            return self.door.long_way(environ, start_response)
        start_response("200 OK", [("Content-Type", "application/json"), *FORMS.items()])
        return [self.door.accepted(offered, windows)]


class Answer(SimpleNamespace):
    def json(self):
        return json.loads(self.content)

    def __getitem__(self, name):
        return self.headers[name]
