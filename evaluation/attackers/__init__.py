"""Attackers: from a sanitized stream, and perhaps some true states, to a guess of the others (CGSSY 4.1 and 4.3)."""
