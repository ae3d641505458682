"""Rows as calls to a server."""
