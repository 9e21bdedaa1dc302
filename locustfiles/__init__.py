"""The scenarios: one small Locust file each. What they are made of is in `load/`."""
