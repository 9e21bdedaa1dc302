"""Searches the most users (or requests per second) at which enough requests still meet the --objectives."""

from load.user import ChatUser


class Capacity(ChatUser):
    """As many users as the highest level needs; with rates, at most `-u` requests in flight."""

    kind = "capacity"
    fixed_count = 256
