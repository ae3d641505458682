"""Kafka's jars, fetched once: into a folder that is there as a whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from strandline.errors import RunError
from strandline.operations.processes import alone
from strandline.spark.java import require_java

KAFKA: Final = "4.1.0"
_IVY_FILE: Final = """<ivy-module version="2.0">
<info organisation="strandline" module="kafka"/>
<configurations><conf name="default"/></configurations>
<dependencies>{jars}</dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One jar of Maven Central, and the digest that it must have.

    >>> Jar.of("org.lz4:lz4-java:1.8.0 d74a").file
    'lz4-java-1.8.0.jar'
    """

    group: str
    name: str
    version: str
    digest: str

    @classmethod
    def of(cls, line: str) -> Jar:
        """From `group:name:version digest`."""
        coordinates, digest = line.split()
        group, name, version = coordinates.split(":")
        return cls(group=group, name=name, version=version, digest=digest)

    @property
    def file(self) -> str:
        """What its file is called."""
        return f"{self.name}-{self.version}.jar"

    @property
    def dependency(self) -> str:
        """How Ivy is told of it: by itself, for what it needs is in the list too."""
        return f'<dependency org="{self.group}" name="{self.name}" rev="{self.version}" transitive="false" conf="default"/>'


def jars() -> list[Jar]:
    """All that a broker needs, pinned."""
    text = files("strandline.operations").joinpath("kafka.jars").read_text(encoding="utf-8")
    return [Jar.of(line) for line in text.splitlines() if line and not line.startswith("#")]


def kafka_jars(say: Callable[[str], None] = lambda _: None) -> Path:
    """The folder with Kafka's jars; they are fetched if they are not there, or not as they must be.

    Law: whatever was killed, and whoever else fetches them, each jar in the folder has its digest.
    """
    folder = cache() / f"kafka-{KAFKA}"
    if not amiss(folder):
        return folder
    java, ivy = require_java("Kafka"), _ivy()
    try:
        with alone(cache() / f"kafka-{KAFKA}.lock"):
            if amiss(folder):  # nobody else has fetched them meanwhile
                say(f"Fetching Kafka {KAFKA} from Maven Central, once (43 MB, about a minute), into {folder}")
                _fetch(java, ivy, folder)
    except OSError as error:
        raise RunError(
            f"Kafka's jars cannot be kept in {cache()}: {error.strerror}.",
            fix="Name another place with XDG_CACHE_HOME.",
        ) from error
    return folder


def cache() -> Path:
    """Where what can be fetched again is kept: XDG_CACHE_HOME/strandline, or ~/.cache/strandline."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "strandline"


def amiss(folder: Path) -> list[str]:
    """The jars that are not in the folder, or are not what they must be. All of them are read: a tenth of a second."""
    return [jar.file for jar in jars() if _digest(folder / jar.file) != jar.digest]


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _ivy() -> Path:
    """The Ivy that PySpark ships, which is looked up and not imported."""
    spark = find_spec("pyspark")
    found = sorted(Path(spark.origin).parent.glob("jars/ivy-*.jar")) if spark is not None and spark.origin else []
    if not found:
        raise RunError(
            "Kafka's jars are fetched with the Ivy of PySpark, which is not installed.",
            fix="Install it: pip install 'strandline[spark,kafka]'.",
        )
    return found[-1]


def _fetch(java: str, ivy: Path, folder: Path) -> None:
    part, resumed = folder.with_name(f"{folder.name}.part"), folder.with_name(f"{folder.name}.ivy")
    shutil.rmtree(part, ignore_errors=True)  # of one that was killed; what Ivy has of it is used
    part.mkdir(parents=True)
    wanted = part / "ivy.xml"
    wanted.write_text(_IVY_FILE.format(jars="\n".join(jar.dependency for jar in jars())), encoding="utf-8")
    command = [java, "-Xmx256m", "-jar", str(ivy), "-cache", str(resumed), "-ivy", str(wanted), "-confs", "default"]
    command += ["-types", "jar", "bundle", "-retrieve", f"{part}/[artifact]-[revision].[ext]"]
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    missing = amiss(part)
    if answer.returncode or missing:
        shutil.rmtree(resumed, ignore_errors=True)  # it may be what is wrong
        raise RunError(
            f"Kafka's jars could not be fetched from Maven Central: {_why(answer.stdout + answer.stderr, missing)}.",
            fix="See to the connection (behind a proxy: JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... -Dhttps.proxyPort=...'), "
            f"or copy {folder} from a machine that has it.",
        )
    shutil.rmtree(folder, ignore_errors=True)  # it was amiss
    part.rename(folder)
    shutil.rmtree(resumed, ignore_errors=True)


def _why(said: str, missing: list[str]) -> str:
    """What Ivy said that a person can use.

    >>> _why("  Server access error at url https://a/b.jar (java.net.ConnectException: Connection refused)", ["b.jar"])
    'https://a/b.jar (java.net.ConnectException: Connection refused)'
    >>> _why("", ["a-1.jar", "b-2.jar"])
    '2 of them came not or damaged, a-1.jar for one'
    """
    errors = [line.partition(" at url ")[2] for line in said.splitlines() if "Server access error at url" in line]
    if errors:
        return errors[0].strip()
    return f"{len(missing)} of them came not or damaged, {missing[0]} for one" if missing else said.strip()[-300:]
