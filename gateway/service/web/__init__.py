"""The page: what an operator sees of the service, and may press. Needs the extra `dropgate[web]`."""
