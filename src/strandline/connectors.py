"""Places that are read and written: one object with two verbs, `read` and `write`.

Sources and sinks do not know each other; a connector knows both, so it stands outside of the rings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from strandline.errors import DescriptionError, told
from strandline.model.secrets import Secret
from strandline.model.time import Span
from strandline.model.types import Schema
from strandline.sinks.database import DatabaseSink
from strandline.sinks.files import FileFormat, FileSink, Layout
from strandline.sources.files import FileSource, Format, OnBad


@dataclass(frozen=True, slots=True)
class Files:
    """A folder of files. Object stores are written by url (s3://, gs://, az://); files are read here only.

    `~` is the home of the user who describes the flow.

    >>> orders = Files("data/orders").read(format="json", schema="user string, at timestamp")
    >>> late = Files("out/late").write(format="json")
    >>> orders.path, late.path
    ('data/orders', 'out/late')
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path):
            raise DescriptionError(
                f"{told(self.path)} is no place for files.", fix="Give a path: Files('data/orders')."
            )
        object.__setattr__(self, "path", os.path.expanduser(self.path))

    def read(
        self,
        *,
        format: Format,
        schema: str | Schema,
        pattern: str | None = None,
        partition_by: str | None = None,
        on_bad: OnBad = "reject",
        header: bool = True,
        separator: str = ",",
        max_files_per_tick: int | None = None,
    ) -> FileSource:
        """Every file that is in the folder, or will be put there, once each. `FileSource` says the rest."""
        return FileSource(
            self.path, format=format, schema=schema, pattern=pattern, partition_by=partition_by, on_bad=on_bad,
            header=header, separator=separator, max_files_per_tick=max_files_per_tick,
        )  # fmt: skip

    def write(self, *, format: FileFormat = "parquet", layout: Layout = "ticks") -> FileSink:
        """A file for each tick that has rows, or files named by a log. `FileSink` says the rest."""
        return FileSink(self.path, format=format, layout=layout)


@dataclass(frozen=True, slots=True)
class Database:
    """A database, by its url. `password` and `options`, settings of its client, are for a server's.

    >>> Database("sqlite:///out.db").write("revenue").table
    'revenue'
    >>> Database("postgresql://ann@db/shop", password=Secret.env("DB_PASSWORD")).write("public.revenue").table
    'public.revenue'
    """

    url: str
    password: Secret | None = None
    options: Mapping[str, object] | tuple[tuple[str, str | Secret], ...] | None = None

    def __post_init__(self) -> None:
        checked = DatabaseSink(self.url, "any", password=self.password, options=self.options)
        object.__setattr__(self, "options", checked.options)  # what cannot be used is said where it stands

    def write(
        self, table: str, *, wait: str | timedelta | Span = Span(30_000_000), nul: str | None = None
    ) -> DatabaseSink:
        """A table; the rows of a tick and its marker are one transaction. `DatabaseSink` says the rest."""
        return DatabaseSink(self.url, table, password=self.password, options=self.options, wait=wait, nul=nul)
