"""Starts, supervises and stops an engine process."""
