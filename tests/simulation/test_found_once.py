"""What the simulator has found once, each as small as it can be told: a fault that came back would be seen here first."""

from dataclasses import replace

from protocol.lease import Lease
from protocol.names import ItemId, Name
from protocol.operations import Outcome, Procedure
from protocol.procedures.adopt import Found, adopt
from protocol.procedures.hold_lease import renew_lease
from protocol.procedures.rename import drop_twin
from protocol.recovery import Ages, DropTwin, Facts, MissingPayload, TakeOver, Unfinished, plan
from protocol.rules import Rules
from protocol.snapshot import Listed, take_snapshot
from protocol.states import State
from tests.protocol.directory import Directory
from tests.protocol.drops import ITEM, draft, hashes, send
from tests.protocol.process import run
from tests.simulation.actors import OLD
from tests.simulation.simulation import Odds, check

RULES = Rules(busy_patience=0.0)
OF = "orders_0000000042"


def test_a_before_token_whose_payloads_were_taken_away_is_not_published_alone() -> None:
    process = send(RULES, given=True)
    there = process.directory
    while f"B_{OF}.manifest.json" not in there.files or not there[f"B_{OF}.manifest.json"]:
        process.step()
    process.kill()
    del there.files[f"B_{OF}.csv"]
    found = run(there, adopt(RULES, ITEM, "invoice 7", hashes(draft(RULES))))
    assert found is Found.UNFINISHED
    assert f"B_{OF}.manifest.json" in there.ls()


def test_a_writer_whose_files_are_published_by_its_successor_does_not_take_them_away() -> None:
    process = send(RULES, given=True)
    there = process.directory
    while f"{OF}.csv" not in there.files:
        process.step()
        if f"B_{OF}.manifest.json" in there.files and there[f"B_{OF}.manifest.json"] and f"B_{OF}.csv" in there.files:
            there.files[f"{OF}.csv"] = there.files.pop(f"B_{OF}.csv")  # the first of the successor's renames
    published = process.run()
    assert published.item == ITEM
    assert there.ls() == [f"{OF}.csv", f"{OF}.manifest.json", f"{OF}.tar.gz"]


def test_a_lease_that_could_not_be_replaced_is_not_renewed() -> None:
    there = Directory(RULES)
    lease = Lease(owner="o", host="h", pid=1, acquired_at="", heartbeat_at="", expires_at="", ttl=30.0, beat=1)
    work = renew_lease(RULES, lease)
    operation = work.send(None)
    while type(operation).__name__ != "Replace":
        operation = work.send(there.change(operation) if type(operation).__name__ == "Delete" else _stored(operation))
    renewed: bool | None = None
    while operation is not None:
        operation, renewed = _next(work, Outcome.BUSY if type(operation).__name__ == "Replace" else Outcome.DONE)
    assert renewed is False


def _next(work: Procedure[bool], answer: object) -> tuple[object, bool | None]:
    try:
        return work.send(answer), None
    except StopIteration as stop:
        return None, stop.value


def _stored(_operation: object) -> object:
    return object()  # whatever is not None: the scratch file was made


def test_a_second_name_is_gone_once_it_is_whatever_becomes_of_the_scratch() -> None:
    there = Directory(RULES)
    there.put("one", b"x")
    there.files["two"] = there.files["one"]
    there.held = {path: -1 for path in _scratch("one")}
    assert run(there, drop_twin("one", "two"))
    assert "one" not in there.files
    assert "two" in there.files


def _scratch(path: str) -> list[str]:
    probe = Directory(RULES)
    probe.put(path, b"x")
    probe.put("keep", b"y")
    process = drop_twin(path, "keep")
    operation = process.send(None)
    process.close()
    return [operation.dst]


def _seen(*paths: str, modified: float = 0.0) -> list[Listed]:
    return [Listed(path, size=len(path), modified=modified) for path in paths]


def test_a_token_alone_that_was_brought_back_from_an_error_image_has_its_payload() -> None:
    snapshot = take_snapshot(_seen(f"{OF}.manifest.json", f"E_{OF}.csv", f"E_{OF}.reason.json"), RULES)
    assert not any(isinstance(a, MissingPayload) for a in plan(snapshot, RULES, Facts(frozenset()), Ages(before=None)))


def test_a_rivals_before_files_hold_up_no_claim_and_go_by_age() -> None:
    snapshot = take_snapshot(_seen(f"C_dead_{OF}.manifest.json", f"{OF}.csv", f"B_{OF}.manifest.json", f"B_{OF}.pdf"), RULES)
    claimed = Name(ItemId("orders_", 42), "manifest.json", State.CLAIMED, "dead")
    actions = plan(snapshot, RULES, Facts(frozenset({"dead"}), 1e6), OLD)
    assert TakeOver(claimed) in actions
    assert DropTwin(replace(claimed, state=State.BEFORE, owner=""), claimed) in actions
    assert any(isinstance(a, Unfinished) and len(a.names) == 2 for a in actions)


def test_schedules_without_any_fault_hold_in_every_scene() -> None:
    calm = Odds(lost=0, died=0, busy=0, killed=0, frozen=0, leap=0, jump=0, replay=0, failing=0)
    for seed in range(40):
        assert not {what for what in check(seed, calm) if not what.startswith(("scene", "replay"))}
