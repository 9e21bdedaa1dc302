"""The scenarios: one small Locust file each. Their parts are in `load/`."""
