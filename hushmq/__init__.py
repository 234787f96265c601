"""The front door: one command line that lazily imports the rest."""
