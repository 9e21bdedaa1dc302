"""The driver behind enginebench: profile, plan, rounds, and one file per command. Never imports locust."""
