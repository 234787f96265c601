"""The pages, their live updates, and the application that serves them."""
