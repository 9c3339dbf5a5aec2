"""Fixtures of the service's tests: drops on each kind of endpoint, and processes that end with their test."""

from tests.crash.conftest import hands, nursery

__all__ = ["hands", "nursery"]
