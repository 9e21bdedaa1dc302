"""How many rounds a verdict on speed needs and at most gets. Light: a run is planned before scipy is needed."""

FEWEST_ROUNDS = 3
"""With fewer rounds on a side a speed ratio gets no verdict: two rounds cannot show how rounds scatter."""
MOST_ROUNDS = 16
"""The round at which `rounds = "auto"` has spent all error: fixed beforehand, since the shares of the looks follow."""
