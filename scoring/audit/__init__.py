"""The audit: was the comparison fair? One file a group of checks."""
