from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from strandline.errors import RunError, StateError
from strandline.spark.failures import told_by

TRACE = 'Failed when Python streaming data source perform latestOffset: Traceback:\n  File "x.py", line 3\n'


def test_an_error_of_ours_comes_back_as_itself() -> None:
    told = told_by(RuntimeError(f"{TRACE}strandline.errors.StateError: It is damaged.\n  fix: Mend it.\n"))
    assert (type(told), told.args) == (StateError, ("It is damaged.", "Mend it."))


@pytest.mark.parametrize(
    "raised",
    [ConnectionRefusedError(111, "Connection refused"), Py4JError("An error occurred while calling o68.isActive")],
)
def test_a_java_process_that_is_gone_is_said_to_be(raised: Exception) -> None:
    told = told_by(raised)
    assert str(told).startswith("Spark's Java process is gone")
    assert isinstance(told, RunError)


def test_an_error_of_a_library_is_told_by_its_last_line() -> None:
    told = told_by(RuntimeError(f"{TRACE}json.decoder.JSONDecodeError: Expecting value\n"))
    assert "JSONDecodeError: Expecting value" in str(told)
