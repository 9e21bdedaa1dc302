"""Converts and checks model weights: safetensors, GGUF."""
