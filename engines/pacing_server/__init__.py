"""An OpenAI-compatible server with a known schedule, to measure clients against."""
