"""The commands for ops: `hushmq broker`, `keys`, `push` and `watch`."""
