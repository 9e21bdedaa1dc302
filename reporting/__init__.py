"""Reports from a comparison: Markdown, HTML, JUnit; the history of nightly runs and its trends."""
