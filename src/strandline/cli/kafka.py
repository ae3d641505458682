"""`strandline kafka`: a real broker for development, and what is in its topics."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Final, Literal

from rich.console import Console
from rich.text import Text
from typer import Argument, Exit, Option, Typer

from strandline.cli.answers import AsJson, show_json, show_table
from strandline.cli.failing import FAILED, WrongUse
from strandline.clients.kafka import Cluster
from strandline.errors import RunError
from strandline.operations import topics as topic_list
from strandline.operations.broker import Broker
from strandline.operations.jars import KAFKA
from strandline.operations.produce import produce as send
from strandline.operations.tail import tail as read

PORT: Final = 9092
LOOK_EVERY: Final = 0.5  # seconds

app = Typer(no_args_is_help=True, help="A real broker of Kafka on this machine, for development; its topics.")
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Folder = Annotated[
    Path | None,
    Option(help="Where its data, settings and log are.", show_default="~/.local/state/strandline/kafka"),
]
Servers = Annotated[
    str | None, Option(help="Which brokers: host:port, or several.", show_default="the one that start started")
]
TopicName = Annotated[str, Argument(metavar="TOPIC", help="The topic's name.", show_default=False)]


@app.command()
def start(
    folder: Folder = None,
    port: Annotated[
        int | None, Option(help="Where it listens; 0: a free one.", show_default=f"that of its last start, or {PORT}")
    ] = None,
    foreground: Annotated[bool, Option("--foreground", help="Stay, and stop it with Ctrl-C.")] = False,
) -> None:
    """Start a broker, and wait until it answers. One that runs already is left as it is."""
    place = _place(folder)
    owner = os.getpid() if foreground else None
    there = (place / "broker.json").exists()
    began = time.monotonic()
    ran = there and Broker.at(place).runs
    broker = Broker.start(
        place, port=PORT if port is None and not there else _checked(port), owner=owner, say=_tell
    )  # fmt: skip
    stays = foreground and not ran
    with _stopped_by_an_interrupt(broker) if stays else nullcontext():
        out.print(Text(f"Kafka {KAFKA} {'runs already' if ran else 'answers'} at {broker.address}"), soft_wrap=True)
        for word, said in (
            ("process", f"{broker.process.pid}" + ("" if ran else f", after {time.monotonic() - began:.1f} s")),
            ("folder", f"{place} (data, settings, broker.log)"),
            ("in a flow", f'sl.Kafka("{broker.address}")'),
            ("to stop it", "Ctrl-C" if stays else f"strandline kafka stop{_named(folder)}"),
        ):
            out.print(Text(f"  {word + ':':<12}{said}"), soft_wrap=True)
        if stays:
            _stay(broker)


@app.command()
def stop(folder: Folder = None) -> None:
    """Stop the broker; its data stays for the next start."""
    place = _place(folder)
    if not (place / "broker.json").exists() or not Broker.at(place).runs:
        out.print(Text(f"No broker runs in {place}."), soft_wrap=True)
        return
    broker = Broker.at(place)
    broker.stop()
    out.print(Text(f"The broker at {broker.address} is stopped; its data stays in {place}."), soft_wrap=True)


@app.command()
def status(folder: Folder = None, as_json: AsJson = False) -> None:
    """Say whether the broker runs. Exit code 1 if it does not, or does not answer."""
    place = _place(folder)
    broker = Broker.at(place) if (place / "broker.json").exists() else None
    if broker is not None and not broker.runs:
        broker = None
    answers = broker is not None and broker.answers
    if as_json:
        at = {} if broker is None else {"address": broker.address, "process": broker.process.pid}
        show_json({"runs": broker is not None, "answers": answers, "folder": str(place), "version": KAFKA, **at})
    elif broker is None:
        out.print(Text(f"No broker runs in {place}."), soft_wrap=True)
    else:
        word = "answers" if answers else "runs, and does not answer,"
        out.print(
            Text(f"Kafka {KAFKA} {word} at {broker.address}: process {broker.process.pid}, {place}"), soft_wrap=True
        )
    if not answers:
        raise Exit(FAILED)


@app.command()
def topics(
    create: Annotated[str | None, Option(metavar="TOPIC", help="Make this topic.")] = None,
    partitions: Annotated[int, Option(help="Of the topic that is made.", min=1)] = 1,
    delete: Annotated[str | None, Option(metavar="TOPIC", help="Delete this topic with all that is in it.")] = None,
    servers: Servers = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """List the topics with their partitions and messages; or make one, or delete one."""
    cluster = _cluster(servers, folder)
    if create is not None:
        topic_list.create(cluster, create, partitions=partitions)
        out.print(Text(f"The topic {create!r} is made, with {_count(partitions, 'partition')}."))
    if delete is not None:
        topic_list.delete(cluster, delete)
        out.print(Text(f"The topic {delete!r} is deleted."))
    if create is None and delete is None:
        _list(cluster, as_json=as_json)


@app.command()
def produce(
    topic: TopicName,
    file: Annotated[str, Argument(metavar="FILE", help="Lines of JSON; - is stdin.", show_default=False)],
    key: Annotated[str | None, Option(help="The field that becomes each message's key.")] = None,
    rate: Annotated[float | None, Option(help="Messages in a second.", show_default="all at once")] = None,
    raw: Annotated[bool, Option("--raw", help="Send lines as they are, JSON or not.")] = False,
    servers: Servers = None,
    folder: Folder = None,
) -> None:
    """Send each line of a file to a topic."""
    if rate is not None and rate <= 0:
        raise WrongUse(f"No messages can be sent at a rate of {rate:g}.", fix="Give a positive number: --rate 100.")
    if raw and key is not None:
        raise WrongUse("Lines that are sent raw have no fields.", fix="Leave out --key, or --raw.")
    cluster = _cluster(servers, folder)
    began = time.monotonic()
    with _opened(file) as lines:
        sent = send(cluster, topic, lines, key=key, rate=rate, raw=raw)
    out.print(Text(f"{_count(sent, 'message')} to {topic!r} in {time.monotonic() - began:.1f} s."))


@app.command()
def tail(
    topic: TopicName,
    start: Annotated[Literal["earliest", "latest"], Option("--from", help="Where to begin.")] = "earliest",
    committed: Annotated[
        bool, Option("--committed/--uncommitted", help="Only what transactions have committed, or everything.")
    ] = True,
    count: Annotated[int | None, Option(help="End after so many.", min=1)] = None,
    until_end: Annotated[bool, Option("--until-end", help="End when all that is there was read.")] = False,
    servers: Servers = None,
    folder: Folder = None,
) -> None:
    """Print a topic's messages as they come: partition, offset, key and value, with tabs between."""
    messages = read(_cluster(servers, folder), topic, start=start, committed=committed, until_end=until_end, warn=_tell)
    try:
        for message in islice(messages, count):
            sys.stdout.write(f"{message.line}\n")
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:  # whoever read this has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        messages.close()


def _place(folder: Path | None) -> Path:
    if folder is not None:
        return folder.expanduser().resolve()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return (Path(base).expanduser() / "strandline" / "kafka").resolve()


def _named(folder: Path | None) -> str:
    return "" if folder is None else f" --folder {folder}"


def _checked(port: int | None) -> int | None:
    if port is not None and not 0 <= port <= 65_535:
        raise WrongUse(f"There is no port {port}.", fix="Give one from 1 to 65535, or 0 for a free one.")
    return port


def _cluster(servers: str | None, folder: Path | None) -> Cluster:
    """The brokers that are named, or the one that was started here."""
    if servers is not None:
        return Cluster(servers)
    place = _place(folder)
    broker = Broker.at(place) if (place / "broker.json").exists() else None
    if broker is None or not broker.runs:
        raise RunError(
            f"No broker runs in {place}.", fix="Start one: strandline kafka start; or name another with --servers."
        )
    return Cluster(broker.address)


@contextmanager
def _stopped_by_an_interrupt(broker: Broker) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _tell("Stopping the broker.")
        broker.stop()


def _stay(broker: Broker) -> None:
    while not broker.process.ended(LOOK_EVERY):
        pass
    raise RunError("The broker has ended.", fix=f"Its log may say why: {broker.log}.")


def _list(cluster: Cluster, *, as_json: bool) -> None:
    found = topic_list.topics(cluster)
    if as_json:
        show_json([{"topic": each.name, "partitions": each.partitions, "messages": each.messages} for each in found])
    elif not found:
        out.print("There are no topics. Make one: strandline kafka topics --create orders --partitions 4")
    else:
        titles = ("topic", "partitions", "messages, at most")
        show_table(out, titles, [(each.name, each.partitions, each.messages) for each in found])


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as lines:
            yield lines
    except OSError as error:
        raise WrongUse(f"{file} cannot be read: {error.strerror}.", fix="Name a file of JSON lines.") from error


def _tell(line: str) -> None:
    err.print(Text(line), soft_wrap=True)


def _count(number: int, word: str) -> str:
    """A number with its word.

    >>> _count(1, "message"), _count(2_000, "message")
    ('1 message', '2,000 messages')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"
