"""Mechanisms and theorems of the papers that the daemons do not use: for comparison and for the command line."""
