"""Every step of the hand-off, written once, as coroutines that await operations and do nothing else."""
