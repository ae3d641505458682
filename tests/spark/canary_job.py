"""A flow that is told secrets by every option there is, in a process of its own that says all it can.

`python -m tests.spark.canary_job SETTINGS FOLDER`: the settings are a file of JSON that says where servers are.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import strandline as sl
from strandline.errors import StrandlineError

SECRET, WRONG = sl.Secret.env("CANARY"), sl.Secret.env("WRONG")


def kafka_at(at: dict[str, Any], *, password: sl.Secret = SECRET, registering: sl.Secret = SECRET) -> sl.Kafka:
    registry = sl.Registry(at["registry"], {"username": "ann", "password": registering}, wait="5s")
    return sl.Kafka(at["kafka"], {**at["options"], "sasl.password": password}, registry=registry)


def everything(at: dict[str, Any], out: Path) -> sl.Flow:
    """A topic of Avro into all kinds of sinks."""
    kafka, made = kafka_at(at), sl.Flow("everything")
    source = kafka.read(at["topic"], format="avro", schema="k string, n int")
    events = made.source("events", source, time=sl.Arrival())
    trigger = sl.Repeatedly(sl.AfterCount(1))
    counted = events.key_by("k").window(sl.Global(ttl="1h"), trigger=trigger).aggregate("counted", n=sl.Count())
    counted.sink("database", sl.Database(at["postgres"], password=SECRET).write("counted"), rows="upsert")
    counted.sink("cache", sl.Redis(at["redis"], {"password": SECRET}).write("counted:"), rows="upsert")
    events.sink("topic", kafka.write(at["out"], format="avro", key="k", create={}), columns=["k", "n"])
    events.sink("calls", sl.Http(at["http"], {"Authorization": SECRET}).write(), columns=["k", "n"])
    events.sink("table", sl.Delta(out / "delta", {"aws_secret_access_key": SECRET}).write(), columns=["k", "n"])
    events.rejected.sink("rejected", kafka.write(f"{at['out']}-rejected", create={}))
    return made


def refused(at: dict[str, Any]) -> Iterator[sl.Flow]:
    """Flows whose server does not let them in, or does not take their rows."""
    for name, kafka in (("reading", kafka_at(at, password=WRONG)), ("registry", kafka_at(at, registering=WRONG))):
        made = sl.Flow(name)
        source = kafka.read(at["topic"], format="avro", schema="k string, n int", wait="5s")
        made.source("events", source, time=sl.Arrival()).sink("out", sl.Memory("out"))
        yield made
    sinks: dict[str, Any] = {
        "writing": kafka_at(at, password=WRONG).write("refused", wait="5s"),
        "database": sl.Database(at["postgres"], password=WRONG).write("refused", wait="5s"),
        "cache": sl.Redis(at["redis"], {"password": WRONG}).write("refused:", wait="5s"),
        "calls": sl.Http(at["http"], {"Authorization": WRONG}).write(),
    }
    for name, sink in sinks.items():
        made = sl.Flow(name)
        events = made.source("events", sl.Rows([{"k": "refused"}], schema="k string"), time=sl.Arrival())
        events.sink("out", sink, **{"rows": "upsert", "key": "k"} if name == "cache" else {})
        yield made


def main(settings: str, folder: str) -> None:
    logging.basicConfig(level=logging.DEBUG)
    at, out = json.loads(Path(settings).read_text()), Path(folder)
    made = everything(at, out)
    print(made.explain())
    run = made.run(state=out / "state", until="caught_up", wait=False)
    print(run.notes)
    print(run.wait().progress)
    for each in refused(at):
        try:
            each.run(state=out / f"state-{each.name}", until="caught_up")
        except StrandlineError as error:  # noqa: PERF203 - each is told
            logging.exception("with its whole trace")
            print(f"refused: {each.name}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
