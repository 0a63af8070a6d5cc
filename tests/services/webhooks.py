"""A server on this machine that takes whatever is posted to it, for targets and pings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def listening(
    heard: list[tuple[str, bytes]], answer: Callable[[str], int] = lambda _: 200
) -> Iterator[int]:
    """Give its port; each path and body that comes is added to *heard*, and has its *answer*."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            heard.append((self.path, body))
            self.send_response(answer(self.path))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
