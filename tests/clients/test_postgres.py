"""Urls of PostgreSQL: what they may say, and that no secret stands in them."""

from __future__ import annotations

import pickle

import pytest

import strandline as sl
from strandline.clients.postgres import Postgres, without_secrets
from strandline.errors import DescriptionError

CANARY = "hunter2-canary"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db/shop",
        "postgres://ann@db:5433/shop?sslmode=require",
        "postgresql://",
        "postgresql:///shop",
        "postgresql://ann@[::1]:5433/shop",
        "postgresql://ann@one:1,two:2/shop?target_session_attrs=read-write",
        "postgresql:///shop?host=/var/run/postgresql&service=mine&passfile=/etc/pass",
        "postgresql://a%40b@%2Fvar%2Frun/my%20shop",
    ],
)
def test_urls_that_libpq_takes_are_taken(url: str) -> None:
    assert Postgres(url).url == url


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{CANARY}@db/shop",
        f"postgres://:{CANARY}@db/shop",
        f"postgresql://ann:a@b{CANARY}@db/shop",
        f"postgresql://ann:a/{CANARY}@db/shop",
        f"postgresql://ann:a?{CANARY}@db/shop",
        f"postgresql://ann:a#{CANARY}@db/shop",
        f"postgresql://ann:[{CANARY}@db/shop",
        f"postgresql://ann:12?a={CANARY}@db/shop",
        f"postgresql://ann:12/{CANARY}@db/shop",
        f"postgresql://db/shop?password={CANARY}",
        f"postgresql://db/shop?pass%77ord={CANARY}",
        f"postgresql://db/shop?sslmode=require&sslpassword={CANARY}",
        f"postgresql://db/shop?password{CANARY}",
        f"mysql://ann:{CANARY}@db/shop",
        f"ann:{CANARY}@db/shop",
        f"host=db password={CANARY}@",
    ],
)
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(DescriptionError) as refused:
        sl.Database(url)
    assert CANARY not in str(refused.value)
    assert CANARY not in repr(refused.getrepr(showlocals=False).reprcrash)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "given",
    [
        {"password": CANARY},
        {"options": {"sslpassword": CANARY}},
        {"options": {"password": sl.Secret.env("X")}},
        {"options": {"host": "db"}},
        {"options": {"client_encoding": "latin1"}},
        {"options": ["sslmode"]},
        {"options": {"sslmode": ["require"]}},
    ],
)
def test_what_does_not_belong_there_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(DescriptionError) as refused:
        sl.Database("postgresql://db/shop", **given)  # type: ignore[arg-type]
    assert CANARY not in str(refused.value)


def test_secrets_are_named_by_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", CANARY)
    options = {"sslmode": "require", "sslpassword": sl.Secret.env("DB_PASSWORD")}
    sink = sl.Database("postgresql://ann@db/shop", password=sl.Secret.env("DB_PASSWORD"), options=options).write("t")
    assert CANARY.encode() not in pickle.dumps(sink)
    assert CANARY not in repr(sink)
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert dict(sink.options)["sslmode"] == "require"


def test_what_a_server_said_is_told_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", CANARY)
    server = Postgres("postgresql://ann@db/shop", password=sl.Secret.env("DB_PASSWORD"))
    assert server.said(f"login with {CANARY}\n\tfailed.") == "login with *** failed"
    monkeypatch.delenv("DB_PASSWORD")
    assert server.said("login failed") == "login failed"


def test_a_url_is_told_without_who_asks() -> None:
    assert without_secrets("postgresql://db/shop") == "postgresql://db/shop"
    assert without_secrets(f"x://a:{CANARY}@b@db/shop?{CANARY}") == "x://***@db/shop?***"


@pytest.mark.parametrize("table", ["a.b.c", ".b", "a.", "x" * 64, "s." + "é" * 32])
def test_names_that_postgres_cannot_have_are_refused(table: str) -> None:
    with pytest.raises(DescriptionError):
        sl.Database("postgresql://db/shop").write(table)


@pytest.mark.parametrize("nul", ["\0", 3])
def test_what_cannot_stand_for_nul_is_refused(nul: object) -> None:
    with pytest.raises(DescriptionError, match="NUL"):
        sl.Database("postgresql://db/shop").write("t", nul=nul)  # type: ignore[arg-type]
