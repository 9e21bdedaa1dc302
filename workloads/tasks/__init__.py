"""One file a task; each defines `TASKS`."""
