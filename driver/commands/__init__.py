"""The commands of run_bench.py: one file each, exposing `command`."""
