"""The streaming tab in Locust's web UI."""
