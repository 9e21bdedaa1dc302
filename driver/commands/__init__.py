"""The commands of enginebench: one file each, exposing `command`."""
