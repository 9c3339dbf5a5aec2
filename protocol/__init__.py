"""What the names and manifests of a drop mean, and how they may change. Pure: no I/O, no clock, no randomness, no threads."""
