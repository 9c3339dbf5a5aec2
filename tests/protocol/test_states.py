"""The states table: every state can be reached and left, and the letters are those of the marks."""

from protocol.states import TRANSITIONS, State, Step


def test_the_marks_are_those_that_ls_sorts() -> None:
    assert {state: state.value for state in State} == {
        State.BEFORE: "B",
        State.READY: "",
        State.CLAIMED: "C",
        State.DONE: "D",
        State.AFTER: "A",
        State.ERROR: "E",
    }
    assert [state.word for state in State] == ["before", "ready", "claimed", "done", "after", "error"]


def test_every_state_is_reached_from_before_and_leads_to_an_end() -> None:
    def reachable(start: State) -> set[State]:
        found = {start}
        while more := {to for (frm, to) in TRANSITIONS if frm in found} - found:
            found |= more
        return found

    assert reachable(State.BEFORE) == set(State)
    assert all(State.AFTER in reachable(state) for state in State)


def test_nothing_becomes_before_again_and_every_step_is_used() -> None:
    assert State.BEFORE not in {to for _, to in TRANSITIONS}
    assert set(TRANSITIONS.values()) == set(Step)


def test_done_can_only_be_put_away() -> None:
    # Whatever was processed must never become ready again by itself.
    assert {to for (frm, to) in TRANSITIONS if frm is State.DONE} == {State.AFTER}
