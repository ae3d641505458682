from __future__ import annotations

from typing import Any

import pytest

from strandline.errors import DescriptionError
from strandline.sources.contract import ReadableSource
from strandline.sources.dataframe import DataFrameSource
from strandline.sources.files import FileSource
from strandline.sources.generator import Generator
from strandline.sources.rows import Rows


def build(spark: Any) -> Any:
    return spark.readStream.table("orders")


def test_it_is_described_without_spark_and_has_no_reader_of_ours() -> None:
    source = DataFrameSource(build, schema="user string, at timestamp", partition_by="user")
    assert not isinstance(source, ReadableSource)
    assert source == DataFrameSource(build, schema="user string, at timestamp", partition_by="user")


@pytest.mark.parametrize(
    "source",
    [Rows(schema="n int"), Generator(), FileSource("x", format="json", schema="n int")],
)
def test_the_others_have_one(source: object) -> None:
    assert isinstance(source, ReadableSource)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ("table", {}, "builds no DataFrame"),
        (build, {"partition_by": "usr"}, "asks for the column 'usr'"),
        (build, {"schema": 5}, "given as text"),
    ],
)
def test_what_makes_no_sense_is_refused(given: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        DataFrameSource(given, **{"schema": "user string", **options})
