"""The parts of a scenario: user, options, session, capture, and the HTTP and chat clients."""
