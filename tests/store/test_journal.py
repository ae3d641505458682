from __future__ import annotations

from pathlib import Path

import pytest

from strandline.errors import StateError
from strandline.model.ticks import Tick
from strandline.model.time import Instant
from strandline.store.journal import JOURNAL, records, write_record
from strandline.store.manifests import Manifest
from strandline.store.storage import storage_at


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    storage = storage_at(tmp_path)
    for number in range(3):
        tick = Tick(number=number, now=Instant(number), edges={})
        write_record(storage, Manifest(flow="f", incarnation="i", run="r", tick=tick), took={}, delivered={})
    name = f"{JOURNAL}{1:012}.json"
    storage.replace(name, storage.read(name)[:-9])
    with pytest.raises(StateError, match=name):
        list(records(storage))
    assert [record["tick"] for record in records(storage, since=2)] == [2]
