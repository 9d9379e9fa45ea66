"""A hub for the agent's tests: a real HTTP server that keeps what it acknowledges, and refuses as
it is told to.
"""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OK_BODY = {"stored": 1, "duplicate": 0, "next_flush_s": 30, "actions": []}


class Hub:
    """`answers` are given first, one per request: (status, headers, body); afterwards everything is
    accepted once.
    """

    def __init__(self):
        self.answers = []
        self.batches = []  # as first accepted, in order of arrival
        self.bodies = {}
        self.requests = []
        self.contradictions = []
        self.is_out = False
        self.max_windows = None
        self.mutex = threading.Lock()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, headers, answer = hub.answer(self.path, self.headers, body)
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response_only(status)
                dated = {"Date": self.date_time_string(), **headers}
                for name, value in {**dated, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, path, headers, body):
        with self.mutex:
            self.requests.append((path, headers, body))
            if self.answers:
                return self.answers.pop(0)
            if self.is_out:
                return 503, {}, {"error": "out"}
            batch = json.loads(gzip.decompress(body))
            if self.max_windows is not None and len(batch["windows"]["gpu"]) > self.max_windows:
                return 413, {}, {"error": "too large"}
            return 200, {}, self.keep(batch)

    def keep(self, batch):
        name = (batch["node"], batch["boot_id"], batch["sequence"])
        known = self.bodies.setdefault(name, batch)
        if known is not batch:
            if known != batch:
                self.contradictions.append(name)
            return {**OK_BODY, "stored": 0, "duplicate": 1}
        self.batches.append(batch)
        return OK_BODY

    def close(self):
        self.server.shutdown()
        self.server.server_close()
