"""Reads what the machine reports while an engine runs: GPU power, memory, clocks."""
