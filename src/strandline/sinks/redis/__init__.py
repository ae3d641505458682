"""Rows as entries of Redis."""
