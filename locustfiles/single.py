"""One request at a time: latency without queueing."""

from load.user import ChatUser


class Single(ChatUser):
    """1 closed-loop user."""

    fixed_count = 1
    exact_count = True
