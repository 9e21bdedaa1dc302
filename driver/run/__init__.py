"""One run: plan, rounds, cells, the launcher of Locust, the manifest."""
