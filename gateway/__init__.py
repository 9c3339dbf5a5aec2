"""Puts protocol and transports together: the hand-off engine, the service that runs routes, and the command line."""
