"""Profiles: TOML read, checked in full and turned into frozen objects."""
