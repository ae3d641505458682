"""Secrets are read where they are used, and hidden in what is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import strandline as sl
from strandline.clients.secrets import hide, reveal, revealed


def test_a_secret_is_read_from_the_environment_or_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PASSWORD", "one two")
    (tmp_path / "secret").write_text("three \n")
    options = (("a", sl.Secret.env("PASSWORD")), ("b", sl.Secret.file(str(tmp_path / "secret"))), ("c", "plain"))
    assert revealed(options) == {"a": "one two", "b": "three ", "c": "plain"}


def test_a_secret_that_is_not_there_is_told_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(sl.RunError, match="'NOT_SET_ANYWHERE'"):
        reveal(sl.Secret.env("NOT_SET_ANYWHERE"))
    with pytest.raises(sl.RunError, match="No such file"):
        reveal(sl.Secret.file(str(tmp_path / "none")))


def test_a_file_that_is_no_text_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"canary\xff")
    with pytest.raises(sl.RunError, match="it is no text") as refused:
        reveal(sl.Secret.file(str(tmp_path / "secret")))
    assert "canary" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_what_a_client_says_is_told_without_the_secret() -> None:
    assert hide("no login: hunter2/hunter22", {"a": "hunter2", "b": "hunter22", "c": "no"}) == "no login: ***/***"
