"""Set-up of the load process: garbage collector, Ctrl-C, end with its parent."""
