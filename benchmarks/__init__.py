"""Measurements against the floor that any engine on the same libraries pays. One core: set before anything is imported."""

import os

for _threads in (
    "POLARS_MAX_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "ARROW_NUM_THREADS",
):
    os.environ[_threads] = "1"
