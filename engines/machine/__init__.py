"""Checks whether the machine can run an engine: ports, memory, other processes on the GPU."""
