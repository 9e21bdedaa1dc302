"""Decides which prompt is asked next, by which user and when."""
