"""A server that is asked for each key: what its answers mean, and what becomes of those that are none."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import strandline as sl
from tests.lookups.playing import looked_up

Said = tuple[int, str]


@contextmanager
def serving(say: Callable[[str, dict[str, str]], Said]) -> Iterator[str]:
    """The url of a server that says what it is told to for a path and headers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            status, text = say(self.path, dict(self.headers.items()))
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


USERS = {"/users/a%2Fb%20%C3%A9?shop=7": {"tier": "gold", "score": 1.25, "since": "2026-01-02T03:04:05Z", "other": 1}}


def test_members_of_the_output_s_names_are_the_columns_and_what_is_not_found_has_no_answer() -> None:
    def say(path: str, headers: dict[str, str]) -> Said:
        return (200, json.dumps(USERS[path])) if path in USERS else (404, "nobody")

    with serving(say) as url:
        found, reasons = looked_up(
            sl.Http(url).lookup("/users/{user}?shop={shop}"), "user string, shop bigint",
            [{"user": "a/b é", "shop": 7}, {"user": "bob", "shop": 7}],
            on=["user", "shop"], output="tier string, score decimal(5,2), since timestamp",
        )  # fmt: skip
    since = sl.Instant.of("2026-01-02T03:04:05Z").moment
    assert reasons == []
    assert [(row["tier"], row["score"] and str(row["score"]), row["since"]) for row in found] == [
        ("gold", "1.25", since), (None, None, None),
    ]  # fmt: skip


def test_a_status_that_passes_is_asked_again_and_another_is_an_error_at_once() -> None:
    asked: Counter[str] = Counter()

    def say(path: str, headers: dict[str, str]) -> Said:
        asked[path] += 1
        return {"/busy": (503, ""), "/bad": (400, "what is that?")}.get(path, (200, "3"))

    with serving(say) as url:
        rows = [{"user": user} for user in ("busy", "bad", "ann")]
        found, reasons = looked_up(
            sl.Http(url).lookup("/{user}"), "user string", rows, on="user", output="n int", retries=2
        )
    assert found == [{"user": "ann", "n": 3}]
    assert sorted(reasons) == ["The server answered 400, 'what is that?'.", "The server answered 503."]
    assert asked == {"/busy": 3, "/bad": 1, "/ann": 1}


def test_secrets_travel_in_headers_and_are_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_TOKEN", "Bearer s3cr3t-t0ken")

    def say(path: str, headers: dict[str, str]) -> Said:
        return 403, f"{headers['Authorization']} may not; s3cr3t-t0ken is blocked"

    with serving(say) as url:
        lookup = sl.Http(url, {"Authorization": sl.Secret.env("CRM_TOKEN")}).lookup("/{user}")
        _, (reason,) = looked_up(lookup, "user string", [{"user": "ann"}], on="user", output="n int")
    assert reason == "The server answered 403, '*** may not; *** is blocked'."
    assert "s3cr3t" not in repr(lookup)


def test_what_is_no_json_is_an_error() -> None:
    with serving(lambda path, headers: (200, "<html>")) as url:
        _, (reason,) = looked_up(
            sl.Http(url).lookup("/{user}"), "user string", [{"user": "ann"}], on="user", output="n int"
        )
    assert reason == "The server answered '<html>', which is no JSON."


def test_a_server_that_is_not_there_rejects_rows() -> None:
    lookup = sl.Http("http://127.0.0.1:1").lookup("/{user}")
    found, (reason,) = looked_up(lookup, "user string", [{"user": "ann"}], on="user", output="n int")
    assert found == []
    assert reason.startswith("ConnectError: ")


@pytest.mark.parametrize(
    ("path", "on", "said"),
    [("/{who}", "user", "asks for 'who'"), ("/{user}", ["user", "shop"], "on= names 'shop', which the url does not")],
)
def test_the_url_names_what_is_asked_for(path: str, on: Any, said: str) -> None:
    events = sl.Flow("wrong").source("events", sl.Rows(schema="user string, shop int, at timestamp"), time="at")
    stream = events.lookup("found", sl.Http("https://crm.example").lookup(path), on=on, output="n int")
    with pytest.raises(sl.CheckFailed, match=said):
        stream.flow.check()


@pytest.mark.parametrize("path", ["/users", "/{}", "/{user.name}", "/{user"])
def test_a_url_without_the_key_is_refused(path: str) -> None:
    with pytest.raises(sl.DescriptionError):
        sl.Http("https://crm.example").lookup(path)


def test_a_secret_that_stands_openly_is_refused() -> None:
    with pytest.raises(sl.DescriptionError, match="holds openly what should be secret"):
        sl.Http("https://crm.example").lookup("/{user}?api_key=abc")
