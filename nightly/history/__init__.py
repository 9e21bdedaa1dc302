"""The figures of past runs in one SQLite file, their series and trends."""
