"""A collector of traces: takes OTLP over HTTP on 127.0.0.1, and keeps the spans."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Listens from the start to `close`. `port` 0 is any free one."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.paths: set[str] = set()
        self.arrived = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector._take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def _take(self, path: str, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self.arrived:
            self.paths.add(path)
            for resource in request.resource_spans:
                self.resources.append({a.key: a.value.string_value for a in resource.resource.attributes})
                for scope in resource.scope_spans:
                    self.spans.extend(scope.spans)
            self.arrived.notify_all()

    def wait(self, count: int) -> list[Any]:
        """The spans, once there are so many."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.spans) >= count, 60), f"{len(self.spans)} spans came"
            return list(self.spans)

    def close(self) -> None:
        """Listens no longer."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes(thing: Any) -> dict[str, str]:
    """The attributes of a span or an event."""
    return {a.key: a.value.string_value for a in thing.attributes}
