"""Exactly 4 requests in flight: each user sends its next when its last has ended."""

from load.user import ChatUser


class Concurrent4(ChatUser):
    """4 closed-loop users."""

    fixed_count = 4
    exact_count = True
