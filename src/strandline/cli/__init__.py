"""The command line: `strandline`. Exit codes: 0 done, 1 a run that failed, 2 wrong use, 3 a flow that is refused."""
