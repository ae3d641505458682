"""Incidents that befall a flow while it runs, and whether health names each with its cause in time; and nothing else."""
