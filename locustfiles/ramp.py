"""Users join one by one over --ramp seconds; measuring starts with the first."""

from load.user import ChatUser


class Ramp(ChatUser):
    """Closed-loop users that do not start together."""

    kind = "ramp"
    fixed_count = 8
