"""The Markdown report, small enough for a pull-request comment."""
