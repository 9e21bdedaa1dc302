"""Master and workers of a distributed run."""
