"""Step by step up to saturation: --steps 1,2,4,8 users, or with --step-by rate as many requests per second."""

from load.user import ChatUser


class Sweep(ChatUser):
    """As many users as the largest step needs; --requests is for each step."""

    kind = "sweep"
    fixed_count = 8
