"""The console's log of changes and views, hash-chained with the ledger."""
