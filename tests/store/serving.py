"""An S3 server on the loopback: moto's S3 behind the standard library's server, with the faults that servers have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import requests
from moto import mock_aws

BUCKET = "strandline-tests"
CREDENTIALS = (("access_key_id", "testing"), ("secret_access_key", "testing"), ("region", "us-east-1"))


class Server(ThreadingHTTPServer):
    """`ignores_conditions`: writes over what is there. `loses`: so many puts are done, and their answers lost."""

    daemon_threads = True
    ignores_conditions = False
    loses = 0
    puts = 0
    gets = 0

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        return (("endpoint", f"http://127.0.0.1:{self.server_port}"), *CREDENTIALS)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in {"host", "content-length"}
        }
        if self.server.ignores_conditions:
            headers = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        self.server.puts += self.command == "PUT"
        self.server.gets += self.command == "GET" and "list-type" not in self.path
        url = f"https://s3.amazonaws.com{self.path}"
        head = self.command == "HEAD"  # whose answer says a length and has no content
        found = requests.request(self.command, url, headers=headers, data=body, timeout=10, stream=head)
        if self.command == "PUT" and self.server.loses:
            self.server.loses -= 1
            self.close_connection = True
            return
        self.send_response(found.status_code)
        for name, value in found.headers.items():
            if name.lower() not in {"content-length", "transfer-encoding", "connection", "content-encoding"}:
                self.send_header(name, value)
        length = found.headers.get("Content-Length", "0") if head else str(len(found.content))
        self.send_header("Content-Length", length)
        self.end_headers()
        if not head:
            self.wfile.write(found.content)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer  # noqa: N815 - the names of the standard library

    def log_message(self, format: str, *args: object) -> None:
        """Nobody wants to know."""


@contextmanager
def serving() -> Iterator[Server]:
    """A server with one empty bucket."""
    with mock_aws():
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        boto3.client("s3", region_name="us-east-1", **keys).create_bucket(Bucket=BUCKET)
        with Server(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()
