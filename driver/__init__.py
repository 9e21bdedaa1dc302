"""The driver behind run_bench.py: profile, plan, rounds, and one file a command. Never imports locust."""
