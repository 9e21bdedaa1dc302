"""Scoring: pure functions over captured records. Starts no process, opens no socket."""
