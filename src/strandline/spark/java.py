"""Find what Spark needs: PySpark, and Java, which others need too. Imports no pyspark, so that it can be asked without."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from strandline.errors import RunError

LEAST_JAVA: Final = 17


def require_pyspark() -> None:
    """Say what to install if there is no PySpark."""
    if find_spec("pyspark") is None:
        raise RunError(
            "PySpark is not installed; flows are run on it.",
            fix="Install it: pip install 'strandline[spark]'. To try a flow without Spark, use strandline.testing.play.",
        )


def require_java(whose: str = "Spark") -> str:
    """Find Java, new enough for Spark and for Kafka; say exactly what to do if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    fix = "Install it: apt-get install openjdk-17-jre-headless; or set JAVA_HOME to a Java 17 or newer."
    if home and not Path(found or "").exists():
        raise RunError(
            f"{whose} needs Java {LEAST_JAVA} or newer, and JAVA_HOME is {home}, where there is no bin/java.",
            fix="Set JAVA_HOME to a Java 17 or newer; or unset it, if java is on the PATH.",
        )
    if found is None:
        raise RunError(f"{whose} needs Java {LEAST_JAVA} or newer, and no java was found.", fix=fix)
    version = java_version(found)
    major = int(version.split(".")[0]) if version.split(".")[0].isdigit() else 0
    if major < LEAST_JAVA:
        raise RunError(
            f"{whose} needs Java {LEAST_JAVA} or newer; {found} is {version or 'of no known version'}.", fix=fix
        )
    return found


@cache
def java_version(java: str) -> str:
    """Which version a Java has; nothing if it does not say so. It is started for that, so it is asked once."""
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    return told.split('"')[1] if '"' in told else ""
