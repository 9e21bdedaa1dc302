"""Ships the project to a host without a network, runs it there and fetches the run's folder."""
