"""Attackers: estimate true states from a sanitized stream and possibly some known states (CGSSY 4.1 and 4.3)."""
