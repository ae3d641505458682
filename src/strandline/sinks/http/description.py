"""Rows as calls to a server, one call for each row, each with a key by which the server knows it again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Final

from strandline.errors import DescriptionError, RunError, told
from strandline.model.options import require_boolean
from strandline.model.secrets import Secret, checked_options, has_open_secret, split_url
from strandline.model.time import Span
from strandline.sinks.contract import ALL_ROWS, Target, require_rows
from strandline.sinks.http.publisher import HttpPublisher, is_header_value

METHODS: Final = ("POST", "PUT", "PATCH")
RETRY_ON: Final = (408, 409, 425, 429, 500, 502, 503, 504)
OURS: Final = frozenset({"content-type", "content-length", "transfer-encoding", "host", "connection"})
OPEN_SECRETS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"})
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, slots=True)
class HttpSink:
    """Call a server for each row, with the row as a JSON object (`strandline.sinks.plain` says how values are written).

    Every call carries `key_header` with a key of its row: the same whenever the row is sent again, another one for every
    other row. `idempotency_key` says what it is made of. **A row may be sent more than once**: after an answer that was lost,
    and after a crash. It has its effect once where the server acts once for each key, and remembers keys for `key_ttl`;
    docs/http.md shows how. A tick that may have been sent longer ago than that is refused, unless it is acknowledged.

    * A call that fails (the server is silent for `timeout`, or answers a status in `retry_on`) is made again up to `retries`
      times, after `backoff`, twice that, and so on up to `longest_backoff`, or what the server says (`Retry-After`).
    * Any other status than 2xx, or one in `accept`, stops the flow and names the row: the server refuses it.
    * After `break_after` failures in a row nobody is called for `pause`; then one call tries whether the server is back.
    * At most `concurrency` calls are under way. Rows with the same key (`.sink(key=...)`) are sent one after the other, in
      order; a changelog without a key all of them; others in any order within a tick.

    A flow that goes back to a savepoint would call again for rows that it had called for, under new keys. That is refused,
    unless `replay=True` says that it is wanted, or it is acknowledged.

    >>> sink = HttpSink("https://pay.example/charges", headers={"Authorization": Secret.env("PAY_TOKEN")}, key_ttl="24h")
    >>> sink.key_ttl, sink.headers
    (Span('1d'), (('Authorization', Secret.env('PAY_TOKEN')),))
    """

    url: str
    _: KW_ONLY
    method: str
    headers: tuple[tuple[str, str | Secret], ...]
    key_header: str
    key_ttl: Span
    concurrency: int
    timeout: Span
    retries: int
    backoff: Span
    longest_backoff: Span
    retry_on: tuple[int, ...]
    accept: tuple[int, ...]
    break_after: int
    pause: Span
    replay: bool

    def __init__(
        self,
        url: str,
        *,
        method: str = "POST",
        headers: Mapping[str, object] | None = None,
        key_header: str = "Idempotency-Key",
        key_ttl: str | timedelta | Span = Span(24 * 3_600_000_000),
        concurrency: int = 8,
        timeout: str | timedelta | Span = Span(10_000_000),
        retries: int = 8,
        backoff: str | timedelta | Span = Span(200_000),
        longest_backoff: str | timedelta | Span = Span(30_000_000),
        retry_on: Iterable[int] = RETRY_ON,
        accept: Iterable[int] = (),
        break_after: int = 10,
        pause: str | timedelta | Span = Span(10_000_000),
        replay: bool = False,
    ) -> None:
        _require_url(url)
        if method not in METHODS:
            raise DescriptionError(f"method={told(method)} sends no rows.", fix=f"Give one of {', '.join(METHODS)}.")
        require_boolean("replay", replay)
        spans = {"key_ttl": key_ttl, "timeout": timeout, "backoff": backoff}
        spans |= {"longest_backoff": longest_backoff, "pause": pause}
        counts = {"concurrency": (concurrency, 1), "retries": (retries, 0), "break_after": (break_after, 1)}
        chosen = {
            "url": url, "method": method, "replay": replay, "headers": _headers(headers or {}, key_header),
            "key_header": key_header, "retry_on": _statuses("retry_on", retry_on), "accept": _statuses("accept", accept),
            **{option: _positive(option, Span.of(value)) for option, value in spans.items()},
            **{option: _count(option, value, least) for option, (value, least) in counts.items()},
        }  # fmt: skip
        for option, value in chosen.items():
            object.__setattr__(self, option, value)
        if self.key_ttl <= self.timeout:
            raise DescriptionError(
                f"key_ttl={self.key_ttl.text!r} is over before a call is, with timeout={self.timeout.text!r}: nothing could be "
                "sent again.",
                fix="Say how long the server remembers keys, such as key_ttl='24h'.",
            )

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        return (
            f"at least once as calls, each row under one {self.key_header}; exactly once in effect, if the server acts once for "
            f"each key and remembers it for {self.key_ttl.text}"
        )

    @property
    def takes(self) -> frozenset[str]:
        """Every kind of rows; changes with their `op`."""
        return ALL_ROWS

    def prepare(self, target: Target) -> HttpPublisher:
        """Make a client. The server is not called: a call would be an effect."""
        require_rows(target, self.takes)
        try:
            import httpx  # noqa: F401 - asked for, not used
        except ImportError:
            raise RunError(
                "The client for http is not installed.", fix="Install it: pip install 'strandline[http]'."
            ) from None
        return HttpPublisher(self, target)


def _require_url(url: object) -> None:
    """Refuse what cannot be called. A url that may hold a secret is not repeated."""
    fix = "Write 'https://host/path'."
    if not isinstance(url, str):
        raise DescriptionError(f"{told(url)} is no url to call.", fix=fix)
    split = split_url(url)
    if split is None:
        raise DescriptionError("The url cannot be read; it is not repeated here.", fix=fix)
    if "@" in split.netloc:
        raise DescriptionError(
            "The url tells who calls; it is not repeated here.",
            fix="Say it in headers={'Authorization': sl.Secret.env('A_VARIABLE')}.",
        )
    if has_open_secret(url):
        raise DescriptionError(
            "The url holds openly what should be secret, and would be in plans and logs; it is not repeated here.",
            fix="Say it in a header: headers={'Authorization': sl.Secret.env('A_VARIABLE')}.",
        )
    if split.scheme not in ("http", "https") or not split.hostname or split.fragment:
        raise DescriptionError(f"{url!r} is no url to call.", fix=fix)


def _headers(headers: Mapping[str, object], key_header: object) -> tuple[tuple[str, str | Secret], ...]:
    if not isinstance(key_header, str) or not _NAME.fullmatch(key_header) or key_header.lower() in OURS:
        raise DescriptionError(
            f"key_header={told(key_header)} is no name of a header for keys.", fix="Write 'Idempotency-Key'."
        )
    chosen = checked_options(headers, option="headers")
    for name, value in chosen:
        if not _NAME.fullmatch(name):
            raise DescriptionError(f"{name!r} is no name of a header.", fix="Use letters, digits and '-'.")
        if name.lower() in OURS | {key_header.lower()}:
            raise DescriptionError(f"The header {name!r} is Strandline's own.", fix="Leave it out.")
        if isinstance(value, Secret):
            continue
        if name.lower() in OPEN_SECRETS:  # its value is not repeated here
            raise DescriptionError(
                f"The header {name!r} stands openly in headers, and would be in plans and logs.",
                fix=f"Say where it is: headers={{{name!r}: sl.Secret.env('A_VARIABLE')}}, or sl.Secret.file('/a/path').",
            )
        if not is_header_value(value):
            raise DescriptionError(
                f"The value of the header {name!r} cannot be sent.",
                fix="Give printable ASCII, without blanks around it.",
            )
    return chosen


def _positive(option: str, span: Span) -> Span:
    if span <= 0:
        raise DescriptionError(f"{option}={span.text!r} is no time.", fix=f"Give such as {option}='10s'.")
    return span


def _count(option: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1_000:
        raise DescriptionError(
            f"{option}={told(value)} is not possible.", fix=f"Give a whole number from {least} to 1000."
        )
    return value


def _statuses(option: str, given: object) -> tuple[int, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DescriptionError(f"{option}={told(given)} names no statuses.", fix=f"Write {option}=[429, 503].")
    statuses = tuple(given)
    for status in statuses:
        if isinstance(status, bool) or not isinstance(status, int) or not 300 <= status <= 599:
            raise DescriptionError(
                f"{option}= names {told(status)}, which is no status from 300 to 599.",
                fix=f"Write {option}=[429, 503].",
            )
    return tuple(sorted(set(statuses)))
