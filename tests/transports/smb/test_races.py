"""Several processes at one name, all of them released at the same moment: one winner, every time.

The suite of the contract races too, without the barrier at every name that makes a double winner nearly certain here.
"""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from testenv.servers import SmbServer
from tests.transports.smb.beside import content, fill, names
from transports.errors import AlreadyExists, Busy, NotFound
from transports.smb import SmbTransport, connect_smb

RACERS = 4
ITEMS = 60
PATIENCE = 60.0  # seconds; for the slowest racer to come to the line, and for Busy to end

_barriers: list[Any] = []  # of this process; handed over when it starts


def _enrol(barrier: object) -> None:
    _barriers.append(barrier)


def _won(step: Callable[[], None]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            step()
        except Busy:
            time.sleep(0.002)
        except (NotFound, AlreadyExists):
            return False
        else:
            return True
    raise TimeoutError("busy for too long")


def _claim(drop: SmbTransport, racer: int, item: int) -> bool:
    return _won(lambda: drop.claim(f"x_{item}", f"C_{racer}_{item}"))


def _publish(drop: SmbTransport, racer: int, item: int) -> bool:
    return _won(lambda: drop.publish(f"B_{racer}_{item}", f"x_{item}"))


def _publish_without_links(drop: SmbTransport, racer: int, item: int) -> bool:
    drop._hard_links = False
    return _publish(drop, racer, item)


Step = Callable[[SmbTransport, int, int], bool]


def _race(server: SmbServer, folder: str, racer: int, step: Step) -> list[int]:
    """The items that this racer won."""
    won = []
    (barrier,) = _barriers
    try:
        with connect_smb(server.endpoint("data", folder)) as drop:
            for item in range(ITEMS):
                barrier.wait(PATIENCE)
                if step(drop, racer, item):
                    won.append(item)
    except BaseException:
        barrier.abort()
        raise
    return won


@pytest.fixture(scope="module")
def crew() -> Iterator[ProcessPoolExecutor]:
    # Not by fork from here: no SMB session survives it.
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(RACERS, context, _enrol, (context.Barrier(RACERS),)) as pool:
        yield pool


def run(crew: ProcessPoolExecutor, server: SmbServer, folder: str, step: Step) -> Counter[int]:
    """How many winners each item had."""
    futures = [crew.submit(_race, server, folder, racer, step) for racer in range(RACERS)]
    return Counter(item for future in futures for item in future.result(timeout=4 * PATIENCE))


ONE_EACH = Counter(range(ITEMS))


def test_a_claim_has_one_winner(crew: ProcessPoolExecutor, smb_server: SmbServer, smb_dir: str, drop: SmbTransport) -> None:
    """smb-claim-double-winner: with shared delete 140 of 150 files had more than one."""
    for item in range(ITEMS):
        fill(drop, f"x_{item}")
    assert run(crew, smb_server, smb_dir, _claim) == ONE_EACH
    assert len(names(drop)) == ITEMS


@pytest.mark.parametrize("step", [_publish, _publish_without_links])
def test_a_publication_has_one_winner(
    crew: ProcessPoolExecutor, smb_server: SmbServer, smb_dir: str, drop: SmbTransport, step: Step
) -> None:
    """smb-publish-noreplace-toctou: Samba's own rename looks first and then replaces; 63 of 150 had more than one."""
    sources = {f"B_{racer}_{item}" for racer in range(RACERS) for item in range(ITEMS)}
    for source in sources:
        fill(drop, source, source.encode())
    assert run(crew, smb_server, smb_dir, step) == ONE_EACH
    left = set(names(drop))
    published = {f"x_{item}" for item in range(ITEMS)}
    winners = {content(drop, name).decode() for name in published}
    assert winners < sources
    assert left == published | (sources - winners), "the losers' files are untouched"
