"""Output files: the rows that a tick gives a sink, written before the manifest that names them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import polars as pl

from strandline.errors import StateError
from strandline.store.layout import output_file
from strandline.store.records import OutputRef
from strandline.store.storage import Storage, digest_of


def frame_bytes(rows: pl.DataFrame) -> bytes:
    """Rows as an Arrow stream."""
    buffer = io.BytesIO()
    rows.write_ipc_stream(buffer)
    return buffer.getvalue()


def write_output(storage: Storage, sink: str, tick: int, data: bytes, rows: int) -> OutputRef:
    """Rows for a sink, as an Arrow stream, durably, under a name that nobody else will use."""
    name = output_file(sink, tick)
    storage.create(name, data)
    return OutputRef(file=name, rows=rows, nbytes=len(data), digest=digest_of(data))


def read_output(storage: Storage, ref: OutputRef) -> pl.DataFrame:
    """The rows of an output file; StateError when its bytes are not what was written."""
    data = storage.read(ref.file)
    if digest_of(data) != ref.digest:
        raise StateError(
            f"The output file {ref.file} is damaged: its bytes are not those that the manifest names.",
            fix="Restore the file from a copy, or start from an earlier savepoint.",
        )
    return pl.read_ipc_stream(io.BytesIO(data))


def joint_digest(outputs: Sequence[OutputRef]) -> str:
    """One digest for all that a tick gives a sink; the order counts."""
    return digest_of("".join(ref.digest for ref in outputs).encode())
