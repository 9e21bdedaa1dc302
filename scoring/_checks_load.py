"""Audit checks of the load."""
