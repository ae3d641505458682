"""Stages other than windows, in columns: a module for each."""
