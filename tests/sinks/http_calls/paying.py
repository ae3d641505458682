"""A server that takes payments: it acts, remembers what it did under which key, and may drop its answers.

Its ledger is the judge: a charge that stands there twice was made twice.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Payments:
    """What the server did, and how it behaves: `at` is told each point that a request reaches, with the request's number."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ledger: list[dict[str, Any]] = []
        self.answers: dict[str, int] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.statuses: dict[int, int] = {}
        self.refused: dict[Any, int] = {}
        self.retry_after: str | None = None
        self.drop_every = 0
        self.remembers = True
        self.requests = 0
        self.under_way: Counter[Any] = Counter()
        self.together = 0
        self.most_together = 0
        self.clashes = 0
        self.at: Callable[[str, int], None] = lambda point, number: None

    def received(self, row: dict[str, Any]) -> int:
        with self.lock:
            self.requests += 1
            self.under_way[row.get("k")] += 1
            self.together += 1
            self.most_together = max(self.most_together, self.together)
            self.clashes += self.under_way[row.get("k")] > 1
            return self.requests

    def done(self, row: dict[str, Any]) -> None:
        with self.lock:
            self.under_way[row.get("k")] -= 1
            self.together -= 1

    def act(self, key: str, row: dict[str, Any], headers: dict[str, str], number: int) -> int:
        with self.lock:
            self.seen.append((key, headers))
            if number in self.statuses:
                return self.statuses[number]
            if row.get("k") in self.refused:
                return self.refused[row["k"]]
            if self.remembers and key in self.answers:
                return self.answers[key]
            self.ledger.append(row)
            self.answers[key] = 201
            return 201

    def charged(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in self.ledger)


@contextmanager
def serving(payments: Payments) -> Iterator[str]:
    """The url of a server with this ledger."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            row = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            number = payments.received(row)
            try:
                payments.at("received", number)
                status = payments.act(self.headers["Idempotency-Key"], row, dict(self.headers.items()), number)
                payments.at("acted", number)
            finally:
                payments.done(row)
            if payments.drop_every and number % payments.drop_every == 0:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            body = json.dumps({"status": status}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if payments.retry_after is not None:
                self.send_header("Retry-After", payments.retry_after)
            self.end_headers()
            self.wfile.write(body)
            payments.at("answered", number)

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def handle(self) -> None:
            with suppress(OSError):  # the caller died, or the answer was dropped
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/charges"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
