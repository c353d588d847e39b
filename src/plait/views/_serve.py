"""`plait view --serve`: hands the page and its graphs to a browser on this machine, read-only.

It listens on loopback only, answers nothing without the random token in the path, and takes no names but those of
chunks, so it never touches a file for a request.
"""

from __future__ import annotations

import secrets
import sys
import threading
import webbrowser
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from plait._errors import PlaitError
from plait.graph._marks import Contrast, Mark
from plait.recording import Recording
from plait.views._html import chunk_text, html
from plait.views._pack import pack
from plait.views._page import Pages


class Server(ThreadingHTTPServer):
    """The server of one recording; `url` is where it answers."""

    daemon_threads = True

    def __init__(
        self, recording: Recording, marks: Iterable[Mark] = (), step: int | None = None, port: int = 0,
        contrast: Contrast | None = None,
    ) -> None:  # fmt: skip
        self.pages = Pages(recording, marks, step, contrast)
        self.token = secrets.token_urlsafe(24)
        self.reading = threading.Lock()  # the recording is one connection
        head = pack(self.pages.head(None, serve=True))
        title = recording.meta.get("program") or Path(recording.path or "run").stem
        self.document = html(title, {"head": head}, connect=True).encode()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise PlaitError(f"--serve: port {port} cannot be used ({error.strerror})") from None

    @property
    def url(self) -> str:
        """The address to open; without its token nothing is answered."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "plait"
    sys_version = ""

    def do_GET(self) -> None:
        """The page, or one chunk of it."""
        # A page of another site may reach this port under a name of its own: answer only to the loopback's.
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        parts = self.path.split("?", 1)[0].split("/")
        if host not in ("127.0.0.1", "localhost") or len(parts) < 3:
            return self._answer(404, b"", "text/plain")
        if not secrets.compare_digest(parts[1].encode(), self.server.token.encode()):
            return self._answer(404, b"", "text/plain")
        if parts[2:] == [""]:
            return self._answer(200, self.server.document, "text/html; charset=utf-8")
        if len(parts) == 4 and parts[2] == "chunk":
            with self.server.reading:
                text = chunk_text(self.server.pages, parts[3])
            if text is not None:
                return self._answer(200, text.encode(), "text/plain")
        return self._answer(404, b"", "text/plain")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the token must not get into a log."""


def run(
    recording: Recording, marks: Iterable[Mark], step: int | None, port: int, opened: bool,
    contrast: Contrast | None = None,
) -> int:  # fmt: skip
    """Answer until Ctrl-C; the exit status. Prints the address on standard output."""
    with Server(recording, marks, step, port, contrast) as server:
        print(server.url, flush=True)
        print("plait: serving this recording on this machine only; Ctrl-C ends it", file=sys.stderr)
        if opened:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print(file=sys.stderr)
    return 0
