"""Fixtures of the service's tests: drops on each kind of endpoint, processes that end with their test, and alarms."""

from tests.crash.conftest import hands, nursery
from tests.service.alarm_service import services

__all__ = ["hands", "nursery", "services"]
