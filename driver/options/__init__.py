"""Options that several commands share, so that they are called and explained alike."""
