"""What was done with which key: the ledger's contract, and where it is kept. Begin at `open_ledger` and `base`."""
