"""The hand-off engine: procedures carried out over transports, for producers, consumers and routes."""
