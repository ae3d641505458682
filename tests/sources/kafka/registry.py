"""A registry of schemas that speaks the protocol over HTTP: schemas by id, versions of subjects, and registering."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any

import fastavro


@dataclass
class Server:
    """What the registry holds, and how it behaves."""

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    down: int = 0  # answers to come that are 503
    login: str | None = None

    def add(self, schema: Any, subject: str = "s", **more: Any) -> int:
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": json.dumps(schema), **more}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            number = int(found[1])
            unknown = 404, {"error_code": 40403, "message": "Schema not found"}
            return (200, self.schemas[number]) if number in self.schemas else unknown
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+)", path):
            number = self.subjects[found[1]][int(found[2]) - 1]
            return 200, {"subject": found[1], "id": number, **self.schemas[number]}
        if (found := re.fullmatch(r"/subjects/([^/]+)/versions", path)) and method == "POST":
            try:
                fastavro.parse_schema(json.loads(body["schema"]))
            except Exception as error:
                return 422, {"error_code": 42201, "message": str(error)}
            known = [n for n in self.subjects.get(found[1], []) if self.schemas[n]["schema"] == body["schema"]]
            return 200, {"id": known[0] if known else self.add(json.loads(body["schema"]), found[1])}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


@contextmanager
def serving(port: int = 0, server: Server | None = None) -> Iterator[Server]:
    """A registry on a port of its own."""
    state = server or Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.asked.append(f"{self.command} {self.path}")
            code, told = self.judged(json.loads(body) if body else None)
            data = json.dumps(told).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815 - the server's name

        def judged(self, body: Any) -> tuple[int, Any]:
            if state.down:
                state.down -= 1
                return 503, {"message": "not well"}
            wanted = state.login and "Basic " + base64.b64encode(state.login.encode()).decode()
            if wanted and self.headers.get("Authorization") != wanted:
                return 401, {"message": "who are you"}
            return state.answer(self.command, self.path, body)

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def wire(number: int, schema: Any, record: Any) -> bytes:
    """A message as Confluent's serialiser writes it."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()
