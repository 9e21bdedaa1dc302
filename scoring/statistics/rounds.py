"""The fewest and the most rounds for a verdict on speed. Imports nothing, because a run is planned without scipy."""

FEWEST_ROUNDS = 3
"""With fewer rounds on a side a speed ratio gets no verdict: two rounds cannot show how rounds scatter."""
MOST_ROUNDS = 16
"""The round at which `rounds = "auto"` has spent all its error. It is fixed, because the share of each look follows."""
