"""The model of a drop holds in every state, each of its rules is needed, and the simulator's steps are the model's."""

import pytest

from protocol.names import Name
from protocol.rules import Signal
from protocol.states import TRANSITIONS, State
from tests.model.drop import MUTATIONS, Model, explore, start, token_steps
from tests.simulation.quick import remembering
from tests.simulation.simulation import Simulation
from tests.simulation.world import World

# producers, consumers, faults, replays
SIZES = ((2, 1, 1, 1), (3, 0, 1, 0), (1, 1, 2, 1), (0, 2, 1, 1))
FOUND_IN = {
    "order": (1, 1, 1, 0),
    "list-and-add": (2, 0, 1, 0),
    "optimist": (2, 0, 1, 0),
    "two-seeds": (3, 0, 0, 0),
    "early": (1, 1, 1, 0),
    "fence": (0, 2, 1, 1),
    "record": (0, 2, 1, 0),
    "check": (0, 2, 1, 0),
    "cas": (0, 2, 1, 0),
    "unarchive": (0, 2, 1, 0),
    "old-look": (0, 2, 1, 1),
}


@pytest.mark.parametrize("size", SIZES)
def test_every_state_holds(size: tuple[int, int, int, int]) -> None:
    producers, consumers, faults, replays = size
    states, way = explore(Model(faults, replays), start(producers, consumers))
    assert not way, "\n".join(way)
    assert states > 500


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_rule_is_needed(mutation: str) -> None:
    producers, consumers, faults, replays = FOUND_IN[mutation]
    _, way = explore(Model(faults, replays, mutation), start(producers, consumers))
    assert way, f"{mutation} does no harm"
    _, way = explore(Model(faults, replays), start(producers, consumers))
    assert not way, "\n".join(way)


# What the model leaves to the procedures that put an item away or give it back; the states table has them.
BESIDE = {
    *(("C", "M"), ("C", "E_M"), ("C", "A_M")),
    *(("E_M", "M"), ("E_M", "C"), ("A_M", "M")),
    *(("P", "E_P"), ("E_P", "P"), ("E_P", "A_P")),
}
_LETTERS = {State.BEFORE: "B_", State.READY: "", State.CLAIMED: "C", State.DONE: "D_", State.AFTER: "A_", State.ERROR: "E_"}


def test_the_simulators_renames_are_steps_of_the_model() -> None:
    """Each rename that the procedures make is a transition of the model, or one of those that are named beside it."""
    known = token_steps() | BESIDE
    seen: set[tuple[str, str]] = set()
    with remembering():
        for seed in range(300):
            simulation = Simulation(seed)
            for drop in simulation.drops:
                if drop.world.rules.signal is Signal.MANIFEST:
                    _watch(drop.world, seen)
            simulation.run()
    assert seen <= known, f"no step of the model: {seen - known}"
    halves = {("B_M", "M"), ("B_P", "P"), ("M", "C"), ("C", "C"), ("C", "D_M"), ("P", "A_P"), ("D_M", "A_M"), ("A_M", "C")}
    assert halves <= seen, f"never made: {halves - seen}"


def _watch(world: World, seen: set[tuple[str, str]]) -> None:
    link = world._link

    def watched(src: str, dst: str) -> None:
        before, after = world.name(src), world.name(dst)
        if isinstance(before, Name) and isinstance(after, Name) and "archive/2" not in dst:
            seen.add((_called(world, before), _called(world, after)))
        link(src, dst)

    world._link = watched  # type: ignore[method-assign] # every rename of the world goes through it


def _called(world: World, name: Name) -> str:
    token = world.rules.is_token(name.kind)
    letter = _LETTERS[name.state]
    return letter if letter == "C" else letter + ("M" if token else "P")


def test_the_model_knows_every_step_of_the_states_table() -> None:
    tokens = {(a, b) for a, b in token_steps() | BESIDE if "P" not in a}
    table = {(_marked(a), _marked(b)) for a, b in TRANSITIONS}
    assert table <= tokens, table - tokens


def _marked(state: State) -> str:
    letter = _LETTERS[state]
    return letter if letter == "C" else letter + "M"
