"""A dcgm-exporter for tests: a real HTTP server that says what it is told to."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Exporter:
    """`says` takes lines; those without labels are of GPU-1."""

    def __init__(self):
        self.text, self.status, self.asked, self.chunks = "", 200, [], None
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                exporter.asked.append(self.path)
                self.send_response(exporter.status)
                self.end_headers()
                try:
                    for chunk in exporter.chunks or [exporter.text.encode()]:
                        self.wfile.write(chunk)
                except OSError:
                    return  # the agent has had enough

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d/metrics" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def says(self, *lines):
        labels = 'gpu="0",UUID="GPU-1",modelName="NVIDIA L4",DCGM_FI_DRIVER_VERSION="580.105.08"'
        whole = [
            line
            if "{" in line or " " not in line
            else "%s{%s} %s" % (line.split()[0], labels, line.split()[1])
            for line in lines
        ]
        self.text = "\n".join(whole) + "\n"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
