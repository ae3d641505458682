"""Rows as entries of Redis, one for each key: a store of features that others read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from strandline.errors import DescriptionError, did_you_mean, told
from strandline.model.secrets import Secret, checked_options, split_url
from strandline.model.time import Span
from strandline.sinks.contract import Rows, Target, require_rows
from strandline.sinks.redis.entries import require_fitting
from strandline.sinks.redis.publisher import RedisPublisher
from strandline.sinks.redis.scripts import MARKER

OPTIONS: Final = frozenset(
    {"username", "password", "client_name"}
    | {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_cert_reqs"}
)
_URL: Final = "Write 'redis://host:6379/0', or 'rediss://' for TLS."


@dataclass(frozen=True, slots=True)
class RedisSink:
    """Keep an entry for each key, under `prefix`; each is a HASH with the columns and `_version`.

    What an entry is called and holds stands in `strandline.sinks.redis.entries`; `entry_name` gives a reader the name.
    `ttl`: an entry is gone that long after the processing time of the tick that last wrote it. `options`: `username`,
    `password` (a Secret) and `ssl_*`, as the client has them. `wait` says how long to try to reach Redis again.

    A batch has at most `batch` rows and about 1 MiB. Only rows="upsert": Redis has one value under a name. Rows that are to be kept side by side go to a table or to files.

    Law: each entry is what the last change of its key says; a delivery that is made again changes nothing.

    >>> RedisSink("redis://localhost:6379", "features:", ttl="30d").ttl
    Span('30d')
    >>> RedisSink("redis://localhost:6379", "features")
    Traceback (most recent call last):
        ...
    strandline.errors.DescriptionError: The prefix 'features' does not end with a colon.
      fix: Write 'features:'.
    """

    url: str
    prefix: str
    _: KW_ONLY
    ttl: Span | None
    options: tuple[tuple[str, str | Secret], ...]
    batch: int
    wait: Span

    def __init__(
        self,
        url: str,
        prefix: str,
        *,
        ttl: str | timedelta | Span | None = None,
        options: Mapping[str, object] | None = None,
        batch: int = 500,
        wait: str | timedelta | Span = Span(30_000_000),
    ) -> None:
        _require_url(url)
        _require_prefix(prefix)
        if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= 10_000:
            raise DescriptionError(f"batch={told(batch)} is no number of rows.", fix="Give 1 to 10000, such as 500.")
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "prefix", prefix)
        object.__setattr__(self, "ttl", None if ttl is None else Span.of(ttl))
        object.__setattr__(self, "options", _options(options or {}, url))
        object.__setattr__(self, "batch", batch)
        object.__setattr__(self, "wait", Span.of(wait))
        if self.ttl is not None and self.ttl < 1_000:
            raise DescriptionError(f"ttl={self.ttl.text!r} is too short to be read.", fix="Give such as '30d'.")
        if self.wait < 0:
            raise DescriptionError(f"wait={self.wait.text!r} is negative.", fix="Give such as '30s'; '0s' tries once.")

    @property
    def guarantee(self) -> str:
        """What is promised, and on which conditions."""
        return (
            "exactly once for each entry, by its version; a reader may see a tick of more rows than fit one batch half "
            "written; if Redis keeps what it acknowledged"
        )

    @property
    def takes(self) -> frozenset[str]:
        """Only upserts: there is one value under a name."""
        return frozenset({"upsert"})

    def own_target(self, rows: Rows) -> tuple[str, str, str]:
        """The prefix: it has one marker, and its entries are overwritten."""
        split = urlsplit(self.url)
        return f"{split.hostname}:{split.port or 6379}", split.path.strip("/") or "0", self.prefix

    def prepare(self, target: Target) -> RedisPublisher:
        """Reach Redis, and look whose entries are there."""
        require_rows(target, self.takes)
        require_fitting(target)
        return RedisPublisher(
            self.url, self.prefix, target, ttl=self.ttl, options=self.options, batch=self.batch, wait=self.wait
        )


def _require_url(url: object) -> None:
    """Refuse what is no url of Redis. One that may hold a password is not repeated."""
    if not isinstance(url, str):
        raise DescriptionError(f"{told(url)} is no url of Redis.", fix=_URL)
    split = split_url(url)
    if split is None or "@" in url or split.query or split.fragment:
        raise DescriptionError(
            "The url of Redis holds more than a scheme, a host, a port and the number of a database; it is not repeated here.",
            fix=f"{_URL} Who logs in: options={{'username': 'ann', 'password': sl.Secret.env('A_VARIABLE')}}.",
        )
    if split.scheme not in ("redis", "rediss") or not split.hostname:
        raise DescriptionError(f"{url!r} is no url of Redis.", fix=_URL)
    database = split.path.removeprefix("/")
    if database and not (database.isascii() and database.isdigit()):
        raise DescriptionError(f"{url!r} names no database of Redis: {database!r}.", fix="They are numbers: '/0'.")


def _require_prefix(prefix: object) -> None:
    if not isinstance(prefix, str) or not prefix.strip(":"):
        raise DescriptionError(f"{told(prefix)} is no prefix of entries.", fix="Name them: 'features:'.")
    if not prefix.endswith(":"):
        raise DescriptionError(f"The prefix {prefix!r} does not end with a colon.", fix=f"Write {prefix + ':'!r}.")
    if prefix.startswith(MARKER.partition(":")[0] + ":"):
        raise DescriptionError(f"The prefix {prefix!r} is kept for markers.", fix="Begin it with another word.")


def _options(options: Mapping[str, object], url: str) -> tuple[tuple[str, str | Secret], ...]:
    chosen = checked_options(options, option="options")
    for name, _ in chosen:
        if name not in OPTIONS:
            raise DescriptionError(f"The setting {name!r} in options is not known.", fix=did_you_mean(name, OPTIONS))
        if name.startswith("ssl_") and not url.startswith("rediss://"):
            raise DescriptionError(
                f"The setting {name!r} in options is for TLS, and {url!r} is without.",
                fix="Write the url with 'rediss://'.",
            )
    return chosen
