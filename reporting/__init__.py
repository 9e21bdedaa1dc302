"""Renders a comparison: terminal, Markdown, HTML, JUnit."""
