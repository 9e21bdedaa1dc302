"""The driver behind enginebench: profile, plan, rounds, and one file a command. Never imports locust."""
