"""A registry of schemas, as Confluent's: schemas by their ids, and ids for schemas.

A schema never changes under its id, so what was fetched once is kept. An id that the registry does not know and a
registry that cannot be asked are two things: the first says something of the message, the second nothing.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from strandline.clients.secrets import hide, revealed
from strandline.errors import DescriptionError, RunError, did_you_mean, told
from strandline.model.secrets import Secret, checked_options, split_url
from strandline.model.time import Span

if TYPE_CHECKING:
    import httpx

KNOWN: Final = ("ca", "password", "token", "username")
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_ANSWER: Final = 10.0  # seconds for one answer
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_UNKNOWN: Final = frozenset({40401, 40402, 40403})  # subject, version, schema


class UnknownSchema(Exception):
    """The registry answered, and knows no schema that can be used under this id; the text says why."""


@dataclass(frozen=True, slots=True)
class Registry:
    """Where a registry of schemas is, and how it is asked.

    Options: `username` and `password`, or `token`, and `ca`, a file of certificates. `wait` is how long it may be away.

    >>> Registry("http://registry:8081", {"username": "ann", "password": Secret.env("PASSWORD")}).options
    (('password', Secret.env('PASSWORD')), ('username', 'ann'))
    """

    url: str
    options: tuple[tuple[str, str | Secret], ...]
    wait: Span

    def __init__(
        self,
        url: str,
        options: Mapping[str, object] | None = None,
        *,
        wait: str | timedelta | Span = Span(60_000_000),
    ) -> None:
        split = split_url(url) if isinstance(url, str) else None
        if split is None or split.scheme not in ("http", "https") or not split.hostname or {"?", "#"} & set(url):
            raise DescriptionError(
                "A registry is named by its url, without a query; what was given is not repeated here.",
                fix="Write 'http://registry:8081'.",
            )
        if "@" in split.netloc:  # not repeated here
            raise DescriptionError(
                "The url of the registry holds a user or a password, and would be in plans and logs.",
                fix="Give them as options: {'username': 'ann', 'password': sl.Secret.env('A_VARIABLE')}.",
            )
        chosen = checked_options(options or {}, option="options")
        for name, _ in chosen:
            if name not in KNOWN:
                raise DescriptionError(f"A registry has no option {name!r}.", fix=did_you_mean(name, KNOWN))
        object.__setattr__(self, "url", url.rstrip("/"))
        object.__setattr__(self, "options", chosen)
        object.__setattr__(self, "wait", Span.of(wait))


def registry_client(registry: Registry) -> RegistryClient:
    """The client of a registry in this process: one for all, with what it has fetched."""
    with _kept.lock:
        if registry not in _kept.clients:
            _kept.clients[registry] = RegistryClient(registry)
        return _kept.clients[registry]


class RegistryClient:
    """Asks a registry, patiently, and keeps what it was told."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._former: list[httpx.Client] = []  # another thread may still ask with one
        self._log_in()
        self._schemas: dict[int, Any] = {}
        self._ids: dict[tuple[str, str], int] = {}

    def schema(self, id: int) -> Any:  # noqa: A002 - the registry's word
        """The Avro schema of an id, as fastavro has parsed it; UnknownSchema if there is none."""
        if id not in self._schemas:
            self._schemas[id] = self._parsed(self._found(f"/schemas/ids/{id}", f"the id {id}"), f"the id {id}")
        return self._schemas[id]

    def register(self, subject: str, schema: str | Mapping[str, Any]) -> int:
        """The id of an Avro schema under a subject; it is added if it is not there. RunError if it may not be."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        if (subject, text) not in self._ids:
            answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text})
            told = _object(answer)
            if not answer.is_success or "id" not in told:
                raise RunError(
                    f"The registry takes no schema for {subject!r}: {self._said(answer)}",
                    fix="Mend the schema, or what the registry asks of this subject (its compatibility).",
                )
            self._ids[subject, text] = int(told["id"])
        return self._ids[subject, text]

    def _log_in(self) -> None:
        options = dict(self.registry.options)
        self._chosen = revealed(self.registry.options)
        self._secrets = [value for name, value in self._chosen.items() if isinstance(options[name], Secret)]
        self._http = _http(self.registry, self._chosen)

    def _log_in_anew(self) -> bool:
        """Whether secrets have changed since they were read: then the registry is asked with the new ones."""
        if revealed(self.registry.options) == self._chosen:
            return False
        self._former.append(self._http)
        self._log_in()
        return True

    def close(self) -> None:
        """Let go of connections."""
        for client in (*self._former, self._http):
            client.close()

    def _found(self, path: str, what: str) -> dict[str, Any]:
        answer = self._ask("GET", path)
        told = _object(answer)
        if told.get("error_code") in _UNKNOWN:
            raise UnknownSchema(f"the registry does not know {what}")
        if not answer.is_success or "schema" not in told:  # a wrong path or a proxy: that says nothing of the message
            raise RunError(
                f"The registry at {self.registry.url} does not tell {what}: {self._said(answer)}",
                fix="See that its url is right, and look at its log; the flow goes on where it was.",
            )
        return told

    def _parsed(self, told: Mapping[str, Any], what: str) -> Any:
        """A schema with all that it refers to."""
        from fastavro.schema import SchemaParseException, parse_schema

        if told.get("schemaType", "AVRO") != "AVRO":
            raise UnknownSchema(f"{what} is a schema of the type {told['schemaType']}, not Avro")
        names: dict[str, Any] = {}
        try:
            self._add_references(told, names)
            return parse_schema(json.loads(told["schema"]), named_schemas=names)
        except (SchemaParseException, ValueError, KeyError, TypeError) as error:
            raise UnknownSchema(f"the schema of {what} cannot be read: {error!r}") from None

    def _add_references(self, told: Mapping[str, Any], names: dict[str, Any]) -> None:
        from fastavro.schema import parse_schema

        for each in told.get("references") or ():
            if each["name"] in names:
                continue
            path = f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}"
            found = self._found(path, f"version {each['version']} of {each['subject']!r}")
            self._add_references(found, names)
            parse_schema(json.loads(found["schema"]), named_schemas=names)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        """An answer; while there is none, or only that the server is not well, ask again, for as long as it may be away."""
        import httpx

        until = time.monotonic() + self.registry.wait / 1_000_000
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = self._http.request(method, path, json=body)
                said = self._said(answer)
                if answer.status_code in (401, 403):
                    if self._log_in_anew():
                        continue
                    raise RunError(
                        f"The registry at {self.registry.url} refuses us: {said}",
                        fix="Give it username and password, or token, as options with sl.Secret.",
                    )
                if answer.status_code < 500 and answer.status_code != 429:
                    return answer
            except httpx.TransportError as error:
                said = hide(f"{type(error).__name__}: {error}", self._secrets)
            if time.monotonic() + pause > until:
                raise RunError(
                    f"The registry at {self.registry.url} did not answer for {self.registry.wait.text}: {said}",
                    fix="Start it, or give its url; the flow goes on where it was.",
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _said(self, answer: httpx.Response) -> str:
        return f"{answer.status_code} {hide(answer.text, self._secrets)[:300]}".strip()


def _object(answer: httpx.Response) -> dict[str, Any]:
    """What an answer says, if that is an object of JSON; else nothing."""
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _http(registry: Registry, chosen: Mapping[str, str]) -> httpx.Client:
    try:
        import httpx
    except ImportError:
        raise RunError(
            "The client of registries is not installed.", fix="Install it: pip install 'strandline[kafka]'."
        ) from None
    headers = {"Accept": _ACCEPT}
    if "token" in chosen:
        headers["Authorization"] = f"Bearer {chosen['token']}"
    auth = (chosen["username"], chosen.get("password", "")) if "username" in chosen else None
    try:
        return httpx.Client(
            base_url=registry.url, headers=headers, auth=auth, timeout=_ANSWER, verify=_trusted(chosen.get("ca"))
        )
    except (OSError, httpx.InvalidURL) as error:
        raise RunError(
            f"The registry at {registry.url} cannot be asked: {hide(told(error), chosen)}",
            fix="Give its url and the file of certificates, ca=.",
        ) from None


def _trusted(ca: str | None) -> Any:
    """What certificates are judged by: those of a file, or the usual ones."""
    if ca is None:
        return True
    import ssl

    return ssl.create_default_context(cafile=ca)


class _Kept:
    """The clients of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clients: dict[Registry, RegistryClient] = {}
        self.left_alone: list[Any] = []

    def forget(self) -> None:
        """After a fork: a connection cannot be shared with another process, nor be closed for it."""
        self.lock = threading.Lock()
        self.left_alone.append(self.clients)
        self.clients = {}


_kept: Final = _Kept()
os.register_at_fork(after_in_child=_kept.forget)
