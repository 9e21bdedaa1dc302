"""Takes the project to a host without a network, runs it there and brings the run back."""
