"""Marks of owners: who is judged dead, and above all who is not."""

import os
import subprocess

import pytest

from testenv import owner


def test_a_running_process_is_not_dead() -> None:
    mark = owner.mark_of(os.getpid())
    assert owner.pid_of(mark) == os.getpid()
    assert not owner.is_dead(mark)


def test_a_process_is_dead_when_it_has_ended_and_even_before_it_is_reaped() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        mark = owner.mark_of(process.pid)
        assert not owner.is_dead(mark)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owner.is_dead(mark)
    assert owner.is_dead(mark)
    with pytest.raises(ProcessLookupError):
        owner.mark_of(process.pid)


def test_a_pid_that_is_used_again_is_another_owner() -> None:
    boot, namespace, pid, started = owner.mark_of(os.getpid()).split(".")
    assert owner.is_dead(f"{boot}.{namespace}.{pid}.{int(started) - 1}")


def test_whoever_ran_before_the_last_boot_is_dead() -> None:
    _, namespace, pid, started = owner.mark_of(os.getpid()).split(".")
    assert owner.is_dead(f"00000000-0000-0000-0000-000000000000.{namespace}.{pid}.{started}")


def test_a_process_of_another_namespace_is_left_alone() -> None:
    boot, _, pid, _ = owner.mark_of(os.getpid()).split(".")
    assert not owner.is_dead(f"{boot}.1.{pid}.1")


@pytest.mark.parametrize("text", ["", "drop", "1.2.3", "a.b.c.d", "1.2.3.4.5"])
def test_what_is_no_mark_is_left_alone(text: str) -> None:
    assert not owner.is_dead(text)
