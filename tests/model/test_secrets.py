"""A secret is named by where it is; what should be one may not stand openly among settings."""

from __future__ import annotations

import pickle

import pytest

import strandline as sl
from strandline.model.secrets import checked_options


def test_neither_text_nor_bytes_of_a_description_hold_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "canary-7f3a")
    secret = sl.Secret.env("PASSWORD")
    assert "canary" not in repr(secret) + str(secret)
    assert b"canary" not in pickle.dumps(secret)


@pytest.mark.parametrize(
    "name",
    ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "basic.auth.credentials", "token", "azure_storage_account_key", "X-Functions-Key", "apikey", "sig"],
)  # fmt: skip
def test_what_should_be_a_secret_may_not_stand_openly_and_is_not_repeated(name: str) -> None:
    with pytest.raises(sl.DescriptionError, match="stands openly") as refused:
        checked_options({name: "canary-7f3a"}, option="options")
    assert "canary" not in str(refused.value)
    assert checked_options({name: sl.Secret.file("/run/x")}, option="options") == ((name, sl.Secret.file("/run/x")),)


@pytest.mark.parametrize(
    "options", [{"a": None}, {"a": [1]}, {1: "a"}, {"": "a"}, ["a"]],
)  # fmt: skip
def test_settings_that_no_client_takes_are_refused(options: object) -> None:
    with pytest.raises(sl.DescriptionError):
        checked_options(options, option="options")  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["", None, 3, "a\0b"])
def test_a_secret_without_a_place_is_refused(place: object) -> None:
    with pytest.raises(sl.DescriptionError):
        sl.Secret.env(place)  # type: ignore[arg-type]
