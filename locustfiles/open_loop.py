"""Requests arrive by a schedule, whether or not earlier ones have ended: --rate, --arrivals, --burstiness."""

from load.user import ChatUser


class OpenLoop(ChatUser):
    """At most `-u` requests in flight; one that has to wait for a free user goes out late, and its record says so."""

    kind = "open"
    fixed_count = 64
