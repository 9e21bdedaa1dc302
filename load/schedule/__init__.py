"""Decides which prompt is asked next, by whom and when."""
