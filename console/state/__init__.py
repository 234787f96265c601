"""The site as messages from the broker describe it."""
