"""Requests arrive by a schedule, whether or not earlier ones have ended: --rate, --arrivals, --burstiness."""

from load.user import ChatUser


class OpenLoop(ChatUser):
    """At most `-u` requests in flight. If no user is free, a request is sent late, and its record shows the delay."""

    kind = "open"
    fixed_count = 64
