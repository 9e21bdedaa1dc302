"""What a scenario is made of: user, options, session, capture, and the HTTP and chat clients."""
