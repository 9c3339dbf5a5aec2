"""Measurements: what a hand-off costs on each transport, and what a crowd of workers does under `kill -9`."""
