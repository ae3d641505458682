"""PostgreSQL: where it is and how it is reached, with secrets read where a connection is made.

A password stands in no url: it is a `Secret`, or where libpq itself looks (a password file, a service, PGPASSWORD).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from strandline.clients.secrets import hide, reveal, revealed
from strandline.errors import DescriptionError, RunError, told
from strandline.model.secrets import Secret, checked_options

if TYPE_CHECKING:
    import psycopg

SCHEMES: Final = ("postgresql", "postgres")
OURS: Final = frozenset({"host", "hostaddr", "port", "user", "dbname", "client_encoding", "replication"})
"""What the url says, or what the text that is sent rests on."""
DEFAULTS: Final = {
    "connect_timeout": ("PGCONNECT_TIMEOUT", "10"),
    "target_session_attrs": ("PGTARGETSESSIONATTRS", "read-write"),  # of several hosts the one that can be written
    "fallback_application_name": ("PGAPPNAME", "strandline"),
    # A server that is gone without a word is noticed within half a minute, not the hours that systems take.
    "keepalives_idle": ("", "10"),
    "keepalives_interval": ("", "5"),
    "keepalives_count": ("", "3"),
    "tcp_user_timeout": ("", "30000"),
}
"""Settings of a connection where neither the user nor the environment (the variable, if there is one) says another."""
LEAST_VERSION: Final = 15
"""The first release in which null can be a key (UNIQUE NULLS NOT DISTINCT)."""
_SECRET: Final = re.compile(r"password|secret|token", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Postgres:
    """Which database, and how it is spoken to. It travels in plans, so its secrets are named by where they are.

    >>> Postgres("postgresql://ann@db:5432/shop?sslmode=require", password=Secret.env("DB_PASSWORD"))
    Postgres(url='postgresql://ann@db:5432/shop?sslmode=require', password=Secret.env('DB_PASSWORD'), options=())
    """

    url: str
    password: Secret | None
    options: tuple[tuple[str, str | Secret], ...]

    def __init__(
        self, url: str, *, password: Secret | None = None, options: Mapping[str, object] | None = None
    ) -> None:
        _require_usable(url)
        if password is not None and not isinstance(password, Secret):  # its value is not repeated here
            raise DescriptionError(
                "The password stands openly in the description, and would be in plans and logs.",
                fix="Say where it is: password=sl.Secret.env('A_VARIABLE'), or sl.Secret.file('/a/path').",
            )
        chosen = checked_options(options or {}, option="options")
        for name, _ in chosen:
            if name in OURS or name == "password":
                said = "password=" if name == "password" else "the url" if name != "client_encoding" else "Strandline"
                raise DescriptionError(
                    f"The setting {name!r} is not for options: {said} says it.", fix="Leave it out of options."
                )
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "password", password)
        object.__setattr__(self, "options", chosen)

    @property
    def place(self) -> str:
        """Where the database is: hosts and its name, without who asks.

        >>> Postgres("postgresql://ann@db:5432/shop?sslmode=require").place
        'db:5432/shop'
        """
        parts = urlsplit(self.url)
        return parts.netloc.rpartition("@")[2] + parts.path

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection, in which every statement is a transaction unless BEGIN was said.

        No statement is prepared for later, so that it also works behind a pool that hands out servers by transaction.
        """
        require_psycopg()
        import psycopg

        asked = dict(parse_qsl(urlsplit(self.url).query, keep_blank_values=True)) | dict(self.options)
        settings: dict[str, Any] = {
            name: value
            for name, (variable, value) in DEFAULTS.items()
            if name not in asked and not os.environ.get(variable)
        }
        settings |= revealed(self.options)
        if self.password is not None:
            settings["password"] = reveal(self.password)
        return psycopg.connect(self.url, autocommit=True, prepare_threshold=None, client_encoding="utf8", **settings)

    def said(self, error: BaseException | str) -> str:
        """What the database or its client said, on one line and without secrets."""
        diag = getattr(error, "diag", None)
        primary = getattr(diag, "message_primary", None)
        parts = [primary, getattr(diag, "message_detail", None)] if primary else [str(error)]
        text = " ".join(" ".join(part.split()).rstrip(".") + "." for part in parts if part)
        # What the client asks back, whoever reads this is told by the fix.
        return hide(text.partition(" Is the server running")[0].rstrip("."), self._secrets())

    def _secrets(self) -> list[str]:
        secrets = [value for _, value in (*self.options, ("password", self.password)) if isinstance(value, Secret)]
        found = []
        for secret in secrets:
            with suppress(RunError):  # one that is no longer there is in nothing that was said
                found.append(reveal(secret))
        return found


def require_psycopg() -> None:
    """Say how to get the client, where it is not installed."""
    try:
        import psycopg  # noqa: F401 - asked for, not used
    except ImportError:
        raise RunError(
            "The client of PostgreSQL is not installed.", fix="Install it: pip install 'strandline[postgres]'."
        ) from None


def without_secrets(url: str) -> str:
    """A url as it may be told: neither who asks, nor anything behind the question mark, for there a password may stand.

    >>> without_secrets("postgresql://ann:hunter2@db/shop?password=hunter2")
    'postgresql://***@db/shop?***'
    """
    scheme, _, rest = url.partition("://")
    place, asks, _ = rest.rpartition("@")[2].partition("?")
    return f"{scheme}://{'***@' if '@' in rest else ''}{place}{'?***' if asks or '?' in rest else ''}"


def _require_usable(url: str) -> None:
    """Refuse what is no url of PostgreSQL, and one with a password in it, which is not repeated."""
    if not isinstance(url, str) or url.partition("://")[0] not in SCHEMES or "\0" in url:
        shown = without_secrets(url) if isinstance(url, str) and "://" in url else told(url)
        raise DescriptionError(f"{shown} is no url of PostgreSQL.", fix="Write 'postgresql://user@host:5432/database'.")
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _unreadable(url) from None
    user, _, hosts = parts.netloc.rpartition("@")
    if ":" in user or any(_SECRET.search(name) for name, _ in query):
        raise DescriptionError(
            f"A password stands in the url {without_secrets(url)}, and would be in plans and logs.",
            fix="Take it out and say where it is: sl.Database(url, password=sl.Secret.env('A_VARIABLE')); "
            "or leave it to libpq's own password file.",
        )
    readable = not parts.fragment and "@" not in parts.path + parts.query and "/" not in unquote(parts.path[1:])
    if not readable or not all(map(_is_host, hosts.split(","))):  # it may be a password with a / or ? in it
        raise _unreadable(url)


def _is_host(host: str) -> bool:
    """`host`, `host:port` or `[address]:port`; nothing at all is the host that libpq takes by itself."""
    return re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?", host) is not None


def _unreadable(url: str) -> DescriptionError:
    """What cannot be read may hold a password anywhere."""
    return DescriptionError(
        f"The url of PostgreSQL ({url.partition('://')[0]}://...) cannot be read.",
        fix="Write 'postgresql://user@host:5432/database?sslmode=require', special characters as %20; the password is "
        "not part of it, but password=sl.Secret.env('A_VARIABLE').",
    )
