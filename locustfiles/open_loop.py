"""Requests arrive by a schedule, whether or not earlier ones have ended: --rate, --arrivals, --burstiness."""

from locustfiles._chat import ChatUser


class OpenLoop(ChatUser):
    """At most `-u` requests can be in flight at once; a request that has to wait for a free user goes out late, and says so."""

    kind = "open"
    fixed_count = 64
