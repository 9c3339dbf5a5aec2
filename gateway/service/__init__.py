"""The service: routes that carry items from drop to drop, and the loops that keep consumers going."""
