"""The load: one small Locust file a scenario, and what they share (modules with a leading underscore)."""
