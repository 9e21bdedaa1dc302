"""The engines: one file each, and what they share: process life cycle, build, weights, GPU meter."""
