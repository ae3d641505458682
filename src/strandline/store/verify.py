"""Make sure that everything a manifest needs is there and can be read: every checksum is looked at."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.kernel.codec import decode_with_about
from strandline.kernel.segments import damaged
from strandline.store.manifests import Manifest, OutputRef
from strandline.store.storage import Storage, digest_of


def verify(storage: Storage, manifest: Manifest) -> int:
    """Read all files that the manifest needs; how many bytes they have. StateError names the first that cannot be used."""
    refs: dict[str, set[int]] = {}
    for ref in (ref for stage in manifest.stages.values() for ref in stage.refs):
        refs.setdefault(ref.file, set()).add(ref.at)
    outputs = {ref.file: ref for ref in _outputs(manifest)}
    read = sum(_segments(storage, file, sorted(refs[file])) for file in sorted(refs))
    return read + sum(_output(storage, outputs[file]) for file in sorted(outputs))


def _outputs(manifest: Manifest) -> Iterable[OutputRef]:
    for sink in manifest.sinks.values():
        yield from sink.outputs
        yield from (ref for pending in sink.pending for ref in pending.outputs)


def _segments(storage: Storage, file: str, numbers: list[int]) -> int:
    data = storage.open(file)
    _, segments = decode_with_about(data, kind="state", name=file)
    if numbers[-1] >= len(segments):
        raise damaged(f"the file {file!r} has no segment {numbers[-1]}, which the manifest names")
    for number in numbers:
        for block in segments[number].blocks:
            block.batch()
    size: int = data.size
    return size


def _output(storage: Storage, ref: OutputRef) -> int:
    data = storage.open(ref.file)
    if digest_of(data) != ref.digest:
        raise damaged(f"the file {ref.file!r} does not have the digest it was written with")
    size: int = data.size
    return size
