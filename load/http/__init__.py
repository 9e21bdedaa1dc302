"""A user's HTTP connection: sends requests, stamps each arrival, removes the framing."""
