"""Checks whether the machine is fit for an engine: ports, memory, other processes on the GPU."""
