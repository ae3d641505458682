"""Faults done to stages other than windows: each alone, and all of them in one flow."""
