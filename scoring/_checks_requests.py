"""Audit checks of the requests."""
