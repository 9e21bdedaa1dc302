"""Exactly N requests in flight; N comes from `-u N`, or from the web UI."""

# Locust registers this module under its file's name: called concurrent.py, it would take the standard library's place.

from load.user import ChatUser


class ClosedLoop(ChatUser):
    """Closed-loop users, as many as asked for."""

    fixed_count = 1
