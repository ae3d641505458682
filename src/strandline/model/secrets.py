"""Secrets, by where they are: a description travels in plans, logs and errors, and must not hold one itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qsl, urlsplit

from strandline.errors import DescriptionError, did_you_mean, told

_SECRET: Final = re.compile(
    r"^(?!.*\.(url|file|location)$).*(password|passwd|secret|token|credential|jaas|private\.?key|key\.pem|\bkey\.string)"
    r"|(account|access|sas|api|subscription|functions|shared)[-_.]?key(?!_?id)|^(key|sig|signature|code)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is read where it is used, each time anew: on the driver, and in the workers that read a source.

    Law: neither its text nor its bytes hold the value.

    >>> Secret.env("KAFKA_PASSWORD")
    Secret.env('KAFKA_PASSWORD')
    >>> Secret.file("/run/secrets/kafka")
    Secret.file('/run/secrets/kafka')
    """

    kind: Literal["env", "file"]
    place: str

    def __post_init__(self) -> None:
        if self.kind not in ("env", "file"):
            raise DescriptionError(
                f"A secret cannot be read from {told(self.kind)}.", fix=did_you_mean(str(self.kind), ("env", "file"))
            )
        if not isinstance(self.place, str) or not self.place or "\0" in self.place:
            raise DescriptionError(
                f"{told(self.place)} is no place of a secret.",
                fix="Name a variable, Secret.env('KAFKA_PASSWORD'), or a file, Secret.file('/run/secrets/kafka').",
            )

    @classmethod
    def env(cls, name: str) -> Secret:
        """The value of a variable of the environment."""
        return cls("env", name)

    @classmethod
    def file(cls, path: str) -> Secret:
        """What a file holds, without the end of its last line."""
        return cls("file", path)

    def __repr__(self) -> str:
        return f"Secret.{self.kind}({self.place!r})"


def has_open_secret(url: str) -> bool:
    """Whether the query of a url names what should be secret: the url stands in plans and logs.

    >>> has_open_secret("https://host/path?page=2"), has_open_secret("s3://bucket/table?access_key=abc")
    (False, True)
    """
    split = split_url(url)
    return split is not None and any(_SECRET.search(n) for n, _ in parse_qsl(split.query, keep_blank_values=True))


def split_url(url: str) -> SplitResult | None:
    """The parts of a url; None where it cannot be read. Who says so does not repeat it: it may hold a secret.

    >>> split_url("http://host:port/") is None
    True
    """
    try:
        split = urlsplit(url)
        split.port  # noqa: B018 - a port that is none is said when it is asked for
    except ValueError:
        return None
    return split


def checked_options(options: Mapping[str, object], *, option: str) -> tuple[tuple[str, str | Secret], ...]:
    """Settings of a client: texts, numbers, booleans and secrets. What should be a secret may not stand there openly.

    >>> checked_options({"linger.ms": 5, "sasl.password": Secret.env("PASSWORD")}, option="options")
    (('linger.ms', '5'), ('sasl.password', Secret.env('PASSWORD')))
    """
    if not isinstance(options, Mapping):
        raise DescriptionError(f"{option} must name settings.", fix=f"Write {option}={{'name': 'value'}}.")
    found: list[tuple[str, str | Secret]] = []
    for name, value in options.items():
        if not isinstance(name, str) or not name:
            raise DescriptionError(
                f"{option} has a setting without a name.", fix=f"Write {option}={{'name': 'value'}}."
            )
        if isinstance(value, Secret):
            found.append((name, value))
        elif _SECRET.search(name):  # its value is not repeated here
            raise DescriptionError(
                f"The setting {name!r} stands openly in {option}, and would be in plans and logs.",
                fix=f"Say where it is: {option}={{{name!r}: sl.Secret.env('A_VARIABLE')}}, or sl.Secret.file('/a/path').",
            )
        elif isinstance(value, bool):
            found.append((name, str(value).lower()))
        elif isinstance(value, str | int | float):
            found.append((name, str(value)))
        else:
            raise DescriptionError(
                f"The setting {name!r} in {option} is of the type {type(value).__name__}.",
                fix="Give text, a number, True or False, or a sl.Secret.",
            )
    return tuple(sorted(found, key=lambda each: each[0]))
