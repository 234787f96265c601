"""The ledger and the accounts of both audiences."""
