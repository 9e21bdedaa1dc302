"""Exactly N requests in flight; N comes from `-u N`, or from the web UI."""

from locustfiles._chat import ChatUser


class Concurrent(ChatUser):
    """Closed-loop users, as many as asked for."""

    fixed_count = 1
