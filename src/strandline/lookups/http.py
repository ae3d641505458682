"""A server that is asked for each key, by a url with the key in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from string import Formatter
from typing import Any, Final
from urllib.parse import quote

import polars as pl

from strandline.clients.secrets import hide, revealed
from strandline.errors import DataError, DescriptionError, RunError, did_you_mean, told
from strandline.kernel.schema import polars_type
from strandline.lookups.values import from_plain
from strandline.model.lookups import Key, Lookup
from strandline.model.secrets import Secret
from strandline.model.types import Schema
from strandline.sinks.http.description import RETRY_ON, HttpSink
from strandline.sinks.redis.entries import text_column

MISSING: Final = (404,)
_SHOWN: Final = 300


@dataclass(frozen=True)
class HttpLookup(Lookup):
    """GET a JSON object for each key: its members of the output's names. A single value is that of the only column.

    `url` has the columns of the key in braces, `https://crm.example/users/{user}`; their values are written as text, and
    escaped. A status in `missing` says that there is no answer; one in `retry_on` is asked again, any other than 2xx is an
    error at once. Secrets stand in `headers`.

    >>> HttpLookup("https://crm.example/users/{user}").fields
    ('user',)
    """

    url: str
    _: KW_ONLY
    headers: tuple[tuple[str, str | Secret], ...]
    missing: tuple[int, ...]
    retry_on: tuple[int, ...]

    def __init__(
        self, url: str, *, headers: Mapping[str, object] | None = None, missing: Iterable[int] = MISSING,
        retry_on: Iterable[int] = RETRY_ON,
    ) -> None:  # fmt: skip
        checked = HttpSink(url, headers=headers, accept=missing, retry_on=retry_on)
        chosen = {"url": url, "headers": checked.headers, "missing": checked.accept, "retry_on": checked.retry_on}
        for option, value in chosen.items():
            object.__setattr__(self, option, value)
        if not self.fields or not all(name.isidentifier() for name in self.fields):
            raise DescriptionError(
                f"The url {url!r} does not say where the key stands.",
                fix="Write the columns of the key in braces: 'https://crm.example/users/{user}'.",
            )

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that the url names."""
        try:
            return tuple(name for _, name, _, _ in Formatter().parse(self.url) if name is not None)
        except ValueError as error:
            raise DescriptionError(
                f"The url {told(self.url)} cannot be filled in: {error}.", fix="Write {{ for {."
            ) from None

    def check(self, key: Schema, output: Schema) -> None:
        """The url names the key's columns, and all of them."""
        for name in self.fields:
            if name not in key:
                raise DescriptionError(
                    f"The url asks for {name!r}, which on= does not name.", fix=did_you_mean(name, key)
                )
        for name in key:
            if name not in self.fields:
                raise DescriptionError(
                    f"on= names {name!r}, which the url does not ask for.",
                    fix=f"Write {{{name}}} into it, or leave it out.",
                )

    def opened(self, key: Schema, output: Schema) -> Server:
        """The server, in this process."""
        return Server(self, key, output)

    def ask(self, *key: Any) -> Any:
        """Not this one: what `opened` gives."""
        raise AssertionError("it is opened before it is asked")


class Server:
    """A client of a server."""

    def __init__(self, lookup: HttpLookup, key: Schema, output: Schema) -> None:
        self.lookup, self.key, self.output = lookup, key, output

    def open(self) -> None:
        """Make a client. How long is waited, and for how many at a time, whoever asks says."""
        try:
            import httpx
        except ImportError:
            raise RunError(
                "The client for http is not installed.", fix="Install it: pip install 'strandline[http]'."
            ) from None
        headers = revealed(self.lookup.headers)
        secrets = [headers[name] for name, value in self.lookup.headers if isinstance(value, Secret)]
        self.secrets = [*secrets, *(part for secret in secrets for part in secret.split()[1:])]
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        self.client = httpx.AsyncClient(headers={"Accept": "application/json", **headers}, limits=limits, timeout=None)

    async def ask(self, *key: Any) -> Any:
        """What the server says of a key."""
        import httpx

        try:
            answer = await self.client.get(self._url(key))
        except httpx.HTTPError as error:
            raise RunError(
                f"{type(error).__name__}: {hide(str(error), self.secrets)}", fix="Look at the server, and at the url."
            ) from None
        status = answer.status_code
        if status in self.lookup.missing:
            return None
        if not 200 <= status < 300:
            shown = hide(answer.text, self.secrets)[:_SHOWN].strip()
            said = f"The server answered {status}{f', {shown!r}' if shown else ''}."
            raise (RunError if status in self.lookup.retry_on else DataError)(said, fix="Look at the server.")
        return self._read(answer.content)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()

    def _url(self, key: Key) -> str:
        texts = {
            name: quote(str(text_column(pl.Series([value], dtype=polars_type(kind)), kind)[0]), safe="")
            for (name, kind), value in zip(self.key.columns, key, strict=True)
        }
        return self.lookup.url.format_map(texts)

    def _read(self, body: bytes) -> Any:
        try:
            said = json.loads(body, parse_float=Decimal)
        except ValueError:
            shown = hide(body[:_SHOWN].decode("utf-8", "replace"), self.secrets)
            raise DataError(f"The server answered {shown!r}, which is no JSON.", fix="Look at the server.") from None
        if isinstance(said, Mapping):
            return {name: from_plain(kind, said.get(name)) for name, kind in self.output.columns}
        return from_plain(self.output.columns[0][1], said) if len(self.output) == 1 else said
