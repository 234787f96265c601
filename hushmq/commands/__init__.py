"""Commands of the front door: the mathematics at the command line."""
