"""Speed figures of a cell from its records."""
