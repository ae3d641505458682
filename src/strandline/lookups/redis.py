"""Entries of Redis that are asked for, many in one round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, get_args

import polars as pl

from strandline.clients.secrets import hide, revealed
from strandline.errors import DescriptionError, RunError, told
from strandline.kernel.schema import polars_type
from strandline.lookups.values import from_plain
from strandline.model.lookups import BatchLookup, Key
from strandline.model.secrets import Secret
from strandline.model.types import Schema, Type
from strandline.sinks.redis.description import RedisSink
from strandline.sinks.redis.entries import key_texts

Holds = Literal["hash", "text"]


@dataclass(frozen=True)
class RedisLookup(BatchLookup):
    """Ask for the entry of each key, under `prefix`: named as `strandline.sinks.redis.entries` says.

    `holds` says what an entry is: a HASH, with a field for each column of the output, as `RedisSink` writes it; or the text
    of the only column. `url` and `options` are as in `RedisSink`. A key without an entry has no answer.

    >>> RedisLookup("redis://localhost:6379", "features:").holds
    'hash'
    """

    url: str
    prefix: str
    _: KW_ONLY
    holds: Holds
    options: tuple[tuple[str, str | Secret], ...]

    def __init__(
        self, url: str, prefix: str, *, holds: Holds = "hash", options: Mapping[str, object] | None = None
    ) -> None:
        checked = RedisSink(url, "any:", options=options)
        if not isinstance(prefix, str):
            raise DescriptionError(f"{told(prefix)} is no prefix of entries.", fix="Name them: 'features:'.")
        if holds not in get_args(Holds):
            raise DescriptionError(
                f"holds={told(holds)} is not known.", fix=f"Give one of {', '.join(map(repr, get_args(Holds)))}."
            )
        for option, value in {"url": url, "prefix": prefix, "holds": holds, "options": checked.options}.items():
            object.__setattr__(self, option, value)

    def check(self, key: Schema, output: Schema) -> None:
        """A text is one column."""
        if self.holds == "text" and len(output) != 1:
            raise DescriptionError(
                f"An entry under {self.prefix!r} holds one text, and output= names {len(output)} columns.",
                fix="Name one column in output=, or write holds='hash'.",
            )

    def opened(self, key: Schema, output: Schema) -> Entries:
        """The entries, in this process."""
        return Entries(self, key, output)

    def ask(self, keys: Sequence[Key]) -> Sequence[object]:
        """Not this one: what `opened` gives."""
        raise AssertionError("it is opened before it is asked")


class Entries:
    """Entries of a server, over connections that are made when they are needed."""

    batch: Final = 500

    def __init__(self, lookup: RedisLookup, key: Schema, output: Schema) -> None:
        self.lookup, self.key, self.output = lookup, key, output

    def open(self) -> None:
        """Make a client; whether the server answers is asked with the first keys."""
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError:
            raise RunError(
                "The client of Redis is not installed.", fix="Install it: pip install 'strandline[redis]'."
            ) from None
        settings: dict[str, Any] = revealed(self.lookup.options)
        self.secrets = [settings[name] for name, value in self.lookup.options if isinstance(value, Secret)]
        self.client = Redis.from_url(self.lookup.url, retry=Retry(NoBackoff(), 0), **settings)

    async def ask(self, keys: Sequence[Key]) -> list[Any]:
        """The entries of keys."""
        from redis.exceptions import RedisError

        names = [self.lookup.prefix + text for text in self._texts(keys)]
        try:
            if self.lookup.holds == "text":
                return [self._text(said) for said in await self.client.mget(names)]
            asked = self.client.pipeline(transaction=False)
            for name in names:
                asked.hmget(name, list(self.output))
            return [self._hash(said) for said in await asked.execute()]
        except RedisError as error:
            raise RunError(
                f"Redis said: {hide(str(error), self.secrets)}.", fix="Look at the server, and at who logs in."
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()

    def _texts(self, keys: Sequence[Key]) -> list[str]:
        columns = zip(self.key.columns, zip(*keys, strict=True), strict=True)
        rows = pl.DataFrame([pl.Series(name, values, polars_type(kind)) for (name, kind), values in columns])
        return key_texts(rows, self.key.columns).to_list()

    def _text(self, said: Any) -> Any:
        ((_, kind),) = self.output.columns
        return _value(kind, said)

    def _hash(self, said: Sequence[Any]) -> dict[str, Any]:
        return {name: _value(kind, each) for (name, kind), each in zip(self.output.columns, said, strict=True)}


def _value(kind: Type, said: Any) -> Any:
    if said is None or kind.name == "binary":
        return said
    return from_plain(kind, said.decode("utf-8", "replace"))
