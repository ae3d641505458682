"""What is said of a lookup where it is described: options that cannot be, and a state that is not there."""

from __future__ import annotations

from typing import Any

import pytest

import strandline as sl
from strandline.kernel.fingerprint import fingerprint
from strandline.kernel.stateful import plan_operator
from strandline.model.nodes import LookupNode
from strandline.model.streams import Stream
from strandline.testing import Events, play
from tests.own import Flaky, numbered_tier_of, tier_of


def events() -> Stream:
    return sl.Flow("described").source("events", sl.Rows(schema="user string, n int, at timestamp"), time="at")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lookup": Flaky}, "the class Flaky itself is asked nothing"),
        ({"lookup": "tier_of"}, "'tier_of' cannot be asked"),
        ({"lookup": dict}, "the class dict itself cannot be asked"),
        ({"on": []}, "names no column"),
        ({"output": None}, "does not say which columns"),
        ({"concurrency": 0}, "concurrency=0 is not possible"),
        ({"timeout": "0s"}, "timeout='0s' is no time to answer in"),
        ({"retries": -1}, "retries=-1 is not possible"),
        ({"cache": "10m"}, "cache='10m' is no cache"),
        ({"ordered": "no"}, "ordered='no' is neither True nor False"),
        ({"on_error": "ignore"}, "on_error='ignore' is not known"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(given: dict[str, Any], said: str) -> None:
    options = {"lookup": tier_of, "on": "user", "output": "tier string", **given}
    with pytest.raises(sl.DescriptionError, match=said):
        events().lookup("tier", options.pop("lookup"), **options)


@pytest.mark.parametrize("given", [{"ttl": "0s"}, {"ttl": "1m", "size": 0}, {"ttl": "1m", "size": True}])
def test_a_cache_that_remembers_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(sl.DescriptionError):
        sl.Cache(**given)


def test_a_lookup_has_no_state_so_that_a_restart_may_change_all_of_it() -> None:
    one = events().lookup("tier", tier_of, on="user", output="tier string").node
    other = events().lookup("tier", Flaky(), on="n", output="x int", ordered=False, cache=sl.Cache("1m")).node
    assert isinstance(one, LookupNode)
    assert isinstance(other, LookupNode)
    assert fingerprint(plan_operator(one)) == fingerprint(plan_operator(other)) == {"operator": "Lookup"}


@pytest.mark.parametrize("runner", ["oracle", "kernel"])
@pytest.mark.parametrize(("lookup", "said"), [(tier_of, "raised PermissionError"), (numbered_tier_of, "is no string")])
def test_a_flow_that_stops_names_the_file_and_the_line(lookup: Any, said: str, runner: str) -> None:
    stream = events().lookup("tier", lookup, on="user", output="tier string", retries=0, on_error="fail")
    rows = [{"user": user, "at": "2026-01-01T12:00:00Z"} for user in ("eve", "bob")]
    with pytest.raises(
        sl.DataError, match=r"The lookup of stage 'tier' has no answer for user='(eve|bob)': "
    ) as caught:
        play(stream, [Events(rows)], runner=runner)
    assert said in caught.value.what
    assert "own.py, line " in caught.value.what
