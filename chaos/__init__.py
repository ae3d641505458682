"""The crash matrix: real faults done to a real flow on Spark, judged from outside by what stands in its sinks.

`python -m chaos` runs all of it (`make chaos`), `--quick` a part, `--only FAULT` some faults.
"""
