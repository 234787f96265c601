"""From nothing to a running site: `hushmq init`, `hushmq up` and `hushmq device`."""
