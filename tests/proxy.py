"""A TCP proxy between a client and a server, which cuts the connection at a chosen moment, whatever they speak.

    with Proxy("127.0.0.1", 5432) as proxy:
        proxy.cut_before(b"COMMIT")     # the server never sees it
        proxy.cut_after(b"COMMIT")      # the server acts on it, and its answer is swallowed
        proxy.delay(0.05)               # each piece takes so long on its way
        client(proxy.port)
        assert proxy.cuts == 2

A rule is used up by the connection that it cut; rules are followed in the order in which they were given. `then` is called
at the same moment: to kill a server, say. `during` does only that, while the server acts.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal

PIECE = 65_536


@dataclass(frozen=True, slots=True)
class Rule:
    """What the client says that makes the proxy cut, and when it does."""

    pattern: bytes
    moment: Literal["before", "during", "after"]
    server_too: bool = True
    then: Callable[[], object] | None = None

    def act(self) -> None:
        if self.then is not None:
            self.then()


@dataclass(eq=False)
class Pair:
    """A client's connection, and that to the server for it."""

    client: socket.socket
    server: socket.socket
    swallowing: Rule | None = None
    seen: bytes = b""
    ended: threading.Event = field(default_factory=threading.Event)

    def close(self, *, server_too: bool = True) -> None:
        self.ended.set()
        for end in (self.client, self.server) if server_too else (self.client,):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Carries bytes between clients and a server until told otherwise. `port` is where clients connect."""

    def __init__(self, host: str, port: int) -> None:
        self.server = (host, port)
        self.rules: deque[Rule] = deque()
        self.pairs: list[Pair] = []
        self.cuts = 0
        self.connections = 0
        self.seconds = 0.0
        self.refusing = False
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_before(self, pattern: bytes, *, server_too: bool = True, then: Callable[[], object] | None = None) -> None:
        """Cut when the client says this, before the server hears it.

        Without `server_too` the server hears nothing more, not even that the client is gone, as when a network falls apart.
        """
        self.rules.append(Rule(pattern, "before", server_too, then))

    def cut_after(self, pattern: bytes, *, then: Callable[[], object] | None = None) -> None:
        """Let the server hear this, and cut when it answers: the client never learns what became of it."""
        self.rules.append(Rule(pattern, "after", then=then))

    def during(self, pattern: bytes, then: Callable[[], object]) -> None:
        """Let the server hear this, and do something at once, while it acts. Nothing is cut."""
        self.rules.append(Rule(pattern, "during", then=then))

    def delay(self, seconds: float) -> None:
        """Let each piece take so long, in both directions."""
        self.seconds = seconds

    def refuse(self, refusing: bool = True) -> None:
        """Take no new connections from now on, as if there were no server; or take them again."""
        self.refusing = refusing

    def cut(self) -> None:
        """Cut every connection now."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            pair.close()
        self.cuts += len(pairs)

    def close(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            pair.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = self._reached()
            if server is None:
                client.close()
                continue
            pair = Pair(client, server)
            with self.lock:
                self.pairs.append(pair)
                self.connections += 1
            threading.Thread(target=self._carry_to_server, args=[pair], daemon=True).start()
            threading.Thread(target=self._carry_to_client, args=[pair], daemon=True).start()

    def _reached(self) -> socket.socket | None:
        """A connection to the server; None if there is none just now."""
        try:
            return None if self.refusing else socket.create_connection(self.server)
        except OSError:
            return None

    def _carry_to_server(self, pair: Pair) -> None:
        while (piece := self._piece(pair, pair.client)) is not None:
            rule = self._heard(pair, piece)
            if rule is not None and rule.moment == "before":
                return self._cut(pair, rule)
            if rule is not None and rule.moment == "after":
                pair.swallowing = rule
            if not self._sent(pair, pair.server, piece):
                return None
            if rule is not None and rule.moment == "during":
                rule.act()
        return None

    def _carry_to_client(self, pair: Pair) -> None:
        while (piece := self._piece(pair, pair.server)) is not None:
            if pair.swallowing is not None:  # the server has answered, so it has acted
                return self._cut(pair, pair.swallowing)
            if not self._sent(pair, pair.client, piece):
                return None
        return None

    def _heard(self, pair: Pair, piece: bytes) -> Rule | None:
        """The rule that a piece uses up, if any; what it asks for may have come in two pieces."""
        with self.lock:
            rule = self.rules[0] if self.rules else None
            before, pair.seen = pair.seen, (pair.seen + piece)[-1024:]
            if rule is None or rule.pattern not in before[max(0, len(before) - len(rule.pattern) + 1) :] + piece:
                return None
            return self.rules.popleft()

    def _piece(self, pair: Pair, source: socket.socket) -> bytes | None:
        try:
            piece = source.recv(PIECE)
        except OSError:
            piece = b""
        if not piece:
            if not pair.ended.is_set():
                pair.close()
            return None
        if self.seconds:
            time.sleep(self.seconds)
        return piece

    def _sent(self, pair: Pair, sink: socket.socket, piece: bytes) -> bool:
        try:
            sink.sendall(piece)
        except OSError:
            if not pair.ended.is_set():
                pair.close()
            return False
        return True

    def _cut(self, pair: Pair, rule: Rule) -> None:
        rule.act()
        self.cuts += 1
        pair.close(server_too=rule.server_too)
        if rule.server_too:
            with self.lock, suppress(ValueError):
                self.pairs.remove(pair)
