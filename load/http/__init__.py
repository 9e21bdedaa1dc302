"""A user's HTTP connection: sends requests, stamps each arrival, takes the framing off."""
