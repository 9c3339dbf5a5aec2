"""The contract, held by the memory backend. It lives in one process, so threads race for it."""

import pytest

from transports.contract import Place, TransportContract
from transports.memory import MemoryStore, MemoryTransport


class TestMemory(TransportContract):
    @pytest.fixture
    def place(self) -> Place:
        store = MemoryStore()
        return Place(connect=lambda below: MemoryTransport(store, below), processes=False)
