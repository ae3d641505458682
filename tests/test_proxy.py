"""The proxy that faults are made with does what it says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.proxy import Proxy


class Echo:
    """A server that answers with what it heard, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while piece := connection.recv(1024):
                self.heard += piece
                connection.sendall(piece)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.listener.close()


def said(proxy: Proxy, *texts: bytes) -> list[bytes]:
    """What comes back for each text, on one connection; nothing once it is cut."""
    answers = []
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        for text in texts:
            answers.append(b"")
            with suppress(OSError):
                client.sendall(text)
                answers[-1] = client.recv(1024)
    return answers


def test_it_carries_what_both_say(echo: Echo) -> None:
    with Proxy("127.0.0.1", echo.port) as proxy:
        assert said(proxy, b"one", b"two") == [b"one", b"two"]
        assert (proxy.cuts, proxy.connections) == (0, 1)


def test_cut_before_the_server_heard_it(echo: Echo) -> None:
    with Proxy("127.0.0.1", echo.port) as proxy:
        proxy.cut_before(b"COMMIT")
        assert said(proxy, b"one", b"COMMIT") == [b"one", b""]
        assert said(proxy, b"COMMIT") == [b"COMMIT"]
        assert (proxy.cuts, echo.heard) == (1, b"oneCOMMIT")


def test_cut_after_the_server_answered(echo: Echo) -> None:
    with Proxy("127.0.0.1", echo.port) as proxy:
        proxy.cut_after(b"COMMIT")
        assert said(proxy, b"one", b"COMMIT") == [b"one", b""]
        assert (proxy.cuts, echo.heard) == (1, b"oneCOMMIT")


def test_what_comes_in_two_pieces_is_heard(echo: Echo) -> None:
    with Proxy("127.0.0.1", echo.port) as proxy:
        proxy.cut_before(b"COMMIT")
        assert said(proxy, b"COM", b"MIT") == [b"COM", b""]


def test_rules_are_followed_in_order_and_act(echo: Echo) -> None:
    acted: list[str] = []
    with Proxy("127.0.0.1", echo.port) as proxy:
        proxy.during(b"a", lambda: acted.append("during"))
        proxy.cut_after(b"b", then=lambda: acted.append("after"))
        proxy.cut_before(b"c", server_too=False, then=lambda: acted.append("before"))
        assert said(proxy, b"a", b"b") == [b"a", b""]
        assert said(proxy, b"c") == [b""]
        assert (acted, proxy.cuts) == (["during", "after", "before"], 2)


def test_all_are_cut_at_once(echo: Echo) -> None:
    with Proxy("127.0.0.1", echo.port) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.sendall(b"one")
        assert client.recv(1024) == b"one"
        proxy.cut()
        with suppress(ConnectionError):
            assert client.recv(1024) == b""


def test_it_can_be_as_if_there_were_no_server(echo: Echo) -> None:
    with Proxy("127.0.0.1", echo.port) as proxy:
        proxy.refuse()
        assert said(proxy, b"one") == [b""]
        proxy.refuse(False)
        assert said(proxy, b"one") == [b"one"]


def test_a_rule_does_not_hear_what_was_said_before_it_was_given(echo: Echo) -> None:
    with Proxy("127.0.0.1", echo.port) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.sendall(b"COMMIT")
        assert client.recv(1024) == b"COMMIT"
        proxy.cut_before(b"COMMIT")
        client.sendall(b"one")
        assert client.recv(1024) == b"one"
        assert proxy.cuts == 0
