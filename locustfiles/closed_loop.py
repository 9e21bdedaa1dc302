"""Exactly N requests in flight; N comes from `-u N`, or from the web UI."""

# Locust registers this module under its file's name, so the name concurrent.py would shadow the standard library's.

from load.user import ChatUser


class ClosedLoop(ChatUser):
    """Closed-loop users, as many as asked for."""

    fixed_count = 1
