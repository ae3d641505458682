"""Rows in Delta tables."""
