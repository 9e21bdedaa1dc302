"""Exactly 8 requests in flight: each user sends its next when its last has ended."""

from load.user import ChatUser


class Concurrent8(ChatUser):
    """8 closed-loop users."""

    fixed_count = 8
    exact_count = True
