"""Demonstrations: a flow on Spark that is killed and goes on (`crash`), and the same meaning without Spark (`panes`)."""
