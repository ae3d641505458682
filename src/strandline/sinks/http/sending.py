"""One call, made until the server answers: retries, waiting, and what an answer means."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from strandline.clients.secrets import hide
from strandline.errors import SinkError
from strandline.model.time import Instant
from strandline.sinks.http.breaker import Breaker
from strandline.sinks.http.keys import backoff

if TYPE_CHECKING:
    import httpx

    from strandline.sinks.http.description import HttpSink

_SHOWN: Final = 300
_READ_AT_MOST: Final = 65_536


class Stopped(Exception):
    """Another call has failed for good, so this one is not made any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A row to be sent."""

    place: int
    key: str
    body: bytes
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one attempt: fine, to be tried again (after so many seconds, if the server said so), or refused."""

    fine: bool
    again: bool = False
    said: str = ""
    after: float | None = None


class Sender:
    """Makes calls; many threads use it at once."""

    def __init__(self, sink: HttpSink, client: httpx.Client, secrets: list[str], *, now: Callable[[], Instant]) -> None:
        self.sink, self.client, self.secrets, self.now = sink, client, secrets, now
        self.breaker = Breaker(after=sink.break_after, pause=sink.pause / 1_000_000)

    def send(self, call: Call, stop: threading.Event, require_remembered: Callable[[], None]) -> None:
        """Make a call until the server has answered it; SinkError if it never does, or refuses."""
        sink = self.sink
        answer = Answer(fine=False)
        for attempt in range(sink.retries + 1):
            self._let_through(stop)
            try:
                require_remembered()
            except SinkError:
                self.breaker.given_up()
                raise
            answer = self._attempt(call)
            if answer.fine:
                return
            if not answer.again:
                raise SinkError(
                    f"{call.about} was refused: {answer.said}.",
                    fix="Mend the server, or what the flow sends, and start again: the same tick is sent again under the same "
                    "keys. If such an answer means that nothing is left to do, name its status in accept=.",
                )
            if attempt < sink.retries:
                self._wait(self._pause(call, attempt, answer), stop)
        raise SinkError(
            f"{call.about} had no good answer in {sink.retries + 1} attempts; the last: {answer.said}.",
            fix="Look at the server, and start again: the same tick is sent again under the same keys. Or give more retries=.",
        )

    def _let_through(self, stop: threading.Event) -> None:
        while (seconds := self.breaker.ask(time.monotonic())) > 0:
            self._wait(seconds, stop)
        if stop.is_set():
            self.breaker.given_up()
            raise Stopped

    def _wait(self, seconds: float, stop: threading.Event) -> None:
        if stop.wait(seconds):
            raise Stopped

    def _pause(self, call: Call, attempt: int, answer: Answer) -> float:
        longest = self.sink.longest_backoff / 1_000_000
        own = backoff(call.key, attempt, self.sink.backoff / 1_000_000, longest)
        return own if answer.after is None else min(max(own, answer.after), longest)

    def _attempt(self, call: Call) -> Answer:
        import httpx

        try:
            answer = self._asked(call)
        except httpx.HTTPError as error:
            said = hide(str(error), self.secrets)
            answer = Answer(fine=False, again=True, said=f"{type(error).__name__}{f': {said}' if said else ''}")
        except BaseException:
            self.breaker.given_up()
            raise
        if answer.again:
            self.breaker.failed(time.monotonic())
        else:
            self.breaker.succeeded()
        return answer

    def _asked(self, call: Call) -> Answer:
        headers = {self.sink.key_header: call.key}
        until = time.monotonic() + self.sink.timeout / 1_000_000
        with self.client.stream(self.sink.method, self.sink.url, content=call.body, headers=headers) as response:
            status = response.status_code
            # Hidden before it is cut: of a secret that lies over the edge a part would stay.
            shown = hide(_text_of(response, until), self.secrets)[:_SHOWN].strip()
        said = f"{status} {hide(response.reason_phrase, self.secrets)}{f', {shown!r}' if shown else ''}"
        if status in self.sink.accept or 200 <= status < 300:
            return Answer(fine=True)
        if status in self.sink.retry_on:
            return Answer(fine=False, again=True, said=said, after=self._retry_after(response))
        return Answer(fine=False, said=said)

    def _retry_after(self, response: httpx.Response) -> float | None:
        """Seconds, or a date."""
        said = response.headers.get("Retry-After", "").strip()
        if said.isascii() and said.isdigit():
            return float(said[:9])
        with suppress(ValueError, TypeError, OverflowError):
            at = parsedate_to_datetime(said)
            at = at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)
            return max((Instant.of(at) - self.now()) / 1_000_000, 0.0)
        return None


def _text_of(response: httpx.Response, until: float) -> str:
    """The start of an answer's text. An answer that is read to its end leaves the connection open for the next call.

    A server that sends it drop by drop is not waited for.
    """
    import httpx

    read = b""
    with suppress(httpx.HTTPError):  # the status stands, whatever becomes of the text
        for part in response.iter_bytes():
            read += part
            if len(read) > _READ_AT_MOST or time.monotonic() > until:
                break
    return read[:_READ_AT_MOST].decode("utf-8", "replace")
