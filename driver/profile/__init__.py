"""Profiles: reads TOML, checks it in full, and makes frozen objects."""
