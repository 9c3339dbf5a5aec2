"""Leases: who is alive, who is dead, and who has to begin again (PROTOCOL section 6)."""

import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gateway.drop import Drop
from gateway.handoff.clock import Clock
from gateway.handoff.consumer import Consumer, Delivery, Event, Result
from gateway.handoff.heartbeat import Heartbeat
from gateway.handoff.machine import is_dead, machine_id, own_process, process_started
from gateway.handoff.producer import Outgoing
from gateway.handoff.watch import Watch
from protocol.lease import Lease, format_lease, parse_lease
from protocol.procedures.look import snapshot
from tests.gateway.tools import GROUP, Taken, drop_at

TTL = 3.0


@dataclasses.dataclass
class Hours:
    """A clock that is set by hand."""

    now: float = 0.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.now, suspended=lambda: self.now, sleep=lambda _: None)


def at(folder: Path, hours: Hours | None = None) -> Drop:
    drop = drop_at(folder)
    return drop if hours is None else dataclasses.replace(drop, clock=hours.clock())


def lease(owner: str, **changes: object) -> bytes:
    now = "2026-11-30T15:01:02Z"
    fields: dict[str, object] = {
        "owner": owner,
        "host": "elsewhere",
        "pid": 1,
        "acquired_at": now,
        "heartbeat_at": now,
        "expires_at": now,
        "ttl": TTL,
        "beat": 0,
    }
    return format_lease(Lease.model_validate(fields | changes))


def dead(folder: Path, watch: Watch, drop: Drop) -> frozenset[str]:
    with drop.driver() as driver:
        return driver.run(watch.dead(driver.run(snapshot(drop.rules))))


def claim_by(folder: Path, owner: str) -> None:
    (folder / f"C_{owner}_orders_0000000001.manifest.json").write_text("{}")


def watching(drop: Drop, own: Callable[[], set[str]] = set) -> Watch:
    return Watch(drop.rules, drop.clock, own, TTL)


def test_a_lease_is_dead_only_after_it_stood_still_while_we_watched(tmp_path: Path) -> None:
    hours = Hours()
    drop = at(tmp_path, hours)
    path = tmp_path / "L_other-1.lease.json"
    path.write_bytes(lease("other-1"))
    os.utime(path, (1, 1))  # however old its file is: that is another clock
    watch = watching(drop)
    assert dead(tmp_path, watch, drop) == frozenset()
    hours.now += TTL
    assert dead(tmp_path, watch, drop) == frozenset()
    hours.now += 0.1
    assert dead(tmp_path, watch, drop) == {"other-1"}


def test_a_beat_begins_the_time_anew(tmp_path: Path) -> None:
    hours = Hours()
    drop = at(tmp_path, hours)
    path = tmp_path / "L_other-1.lease.json"
    path.write_bytes(lease("other-1"))
    watch = watching(drop)
    for beat in range(1, 4):
        dead(tmp_path, watch, drop)
        hours.now += TTL * 0.9
        path.write_bytes(lease("other-1", beat=beat))
        os.utime(path, (beat, beat))
        assert dead(tmp_path, watch, drop) == frozenset()


def test_a_watcher_that_slept_looks_once_more_before_it_judges(tmp_path: Path) -> None:
    hours = Hours()
    drop = at(tmp_path, hours)
    path = tmp_path / "L_other-1.lease.json"
    path.write_bytes(lease("other-1"))
    watch = watching(drop)
    with drop.driver() as driver:
        old_listing = driver.run(snapshot(drop.rules))
        driver.run(watch.dead(old_listing))
        hours.now += 3600
        os.utime(path, (5, 5))  # beaten since the listing was taken
        assert driver.run(watch.dead(old_listing)) == frozenset()


def test_a_claim_without_a_lease_is_given_as_long(tmp_path: Path) -> None:
    hours = Hours()
    drop = at(tmp_path, hours)
    claim_by(tmp_path, "other-1")
    watch = watching(drop)
    assert dead(tmp_path, watch, drop) == frozenset()
    hours.now += TTL + 0.1
    assert dead(tmp_path, watch, drop) == {"other-1"}


def test_a_dead_process_of_this_machine_is_dead_at_once(tmp_path: Path) -> None:
    drop = at(tmp_path, Hours())
    pid, started = own_process()
    path = tmp_path / "L_other-1.lease.json"
    path.write_bytes(lease("other-1", machine=machine_id(), pid=pid, started=started))
    assert dead(tmp_path, watching(drop), drop) == frozenset()
    path.write_bytes(lease("other-1", **gone_process()))
    assert dead(tmp_path, watching(drop), drop) == {"other-1"}


def test_the_same_pid_of_another_time_or_another_machine_proves_nothing(tmp_path: Path) -> None:
    drop = at(tmp_path, Hours())
    pid, started = own_process()
    assert not is_dead(pid, started)
    assert is_dead(pid, "1")
    elsewhere = {"machine": "another/pid:[1]", "pid": 2**22 + 1, "started": "1"}
    (tmp_path / "L_other-1.lease.json").write_bytes(lease("other-1", **elsewhere))
    assert dead(tmp_path, watching(drop), drop) == frozenset()


def test_a_torn_lease_is_judged_by_standing_still_alone(tmp_path: Path) -> None:
    hours = Hours()
    drop = at(tmp_path, hours)
    (tmp_path / "L_other-1.lease.json").write_bytes(b"{")
    watch = watching(drop)
    assert dead(tmp_path, watch, drop) == frozenset()
    hours.now += TTL + 0.1
    assert dead(tmp_path, watch, drop) == {"other-1"}


def test_a_heartbeat_keeps_its_lease_and_takes_it_away_in_the_end(tmp_path: Path) -> None:
    drop = at(tmp_path)
    path = tmp_path / "L_me-1.lease.json"
    with drop.heartbeat(TTL) as heartbeat, drop.driver() as driver:
        heartbeat.take(driver, "me-1")
        first = parse_lease(path.read_bytes())
        assert (first.beat, first.ttl, first.pid, first.machine) == (0, TTL, os.getpid(), machine_id())
        end = time.monotonic() + 5
        while parse_lease(path.read_bytes()).beat == 0 and time.monotonic() < end:
            time.sleep(0.05)
        assert parse_lease(path.read_bytes()).beat >= 1
        assert not heartbeat.is_lost("me-1")
        heartbeat.give_up(driver, "me-1")
    assert list(tmp_path.iterdir()) == []


def test_a_lease_that_could_not_be_renewed_for_its_ttl_is_lost_for_ever(tmp_path: Path) -> None:
    hours = Hours()
    drop = at(tmp_path, hours)
    with drop.heartbeat(TTL) as heartbeat, drop.driver() as driver:
        heartbeat.take(driver, "me-1")
        hours.now += TTL + 0.1  # suspended: the heart did not beat meanwhile
        assert heartbeat.is_lost("me-1")
        hours.now -= 1
        assert heartbeat.is_lost("me-1")


def consumer(drop: Drop, heartbeat: Heartbeat, taken: Taken, report: Callable[[Event], None]) -> Consumer:
    return drop.consumer((GROUP,), taken, report, heartbeat=heartbeat)


def send(drop: Drop, folder: Path, count: int = 1) -> None:
    source = folder.parent / "source.csv"
    source.write_text("a;b\n")
    with drop.producer() as producer:
        for _ in range(count):
            producer.send([Outgoing(source)], group=GROUP)


def test_a_worker_whose_lease_was_lost_takes_a_new_owner_id_before_it_claims_again(tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    hours = Hours()
    drop = at(folder, hours)
    send(drop, folder, 2)
    events: list[Event] = []
    owners: list[str] = []
    stop = threading.Event()
    with drop.heartbeat(TTL) as heartbeat:
        worker = consumer(drop, heartbeat, Taken(), events.append)

        def handler(delivery: Delivery) -> None:
            del delivery
            owners.append(worker.owner)
            hours.now += TTL + 1  # a long sleep of this machine, in which others may have taken us for dead

        worker.handler = handler
        with worker:
            while worker.sweep_once(stop):
                pass
    assert [event.result for event in events] == [Result.PROCESSED] * 2
    assert len(set(owners)) == 2


def gone_process() -> dict[str, object]:
    """The facts of a process of this machine that has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    facts = {"machine": machine_id(), "pid": process.pid, "started": process_started(process.pid)}
    process.communicate(b"\n")
    return facts


def test_an_orphan_is_taken_over_and_finished(tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    drop = at(folder)
    send(drop, folder)
    token = "orders_0000000001.manifest.json"
    (folder / token).rename(folder / f"C_gone-1_{token}")
    (folder / "L_gone-1.lease.json").write_bytes(lease("gone-1", **gone_process()))
    events: list[Event] = []
    stop = threading.Event()
    with drop.heartbeat(TTL) as heartbeat, consumer(drop, heartbeat, Taken(), events.append) as worker:
        assert worker.sweep_once(stop) == 1
    assert [event.result for event in events] == [Result.PROCESSED]
    assert sorted(p.name for p in folder.iterdir()) == [
        "A_orders_0000000001.csv",
        "A_orders_0000000001.manifest.json",
        "L_gone-1.lease.json",  # the next sweep takes it: this one still saw its claim
        "S_orders_0000000002.next",
        "S_orders_origin",
    ]
