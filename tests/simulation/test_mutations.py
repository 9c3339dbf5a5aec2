"""The simulator proves its worth: it finds each rule of the procedures that is broken on purpose."""

import pytest

from tests.simulation.mutations import HARSH, MUTATIONS, SLEEPY
from tests.simulation.quick import remembering
from tests.simulation.simulation import Odds, Simulation
from tests.simulation.world import Violation

# Schedules that found it when this was written. Where the procedures have changed since, others are tried, up to so many.
FOUND_BY: dict[str, tuple[Odds, int]] = {
    "complete without fence": (HARSH, 15),
    "reap by comparing host clocks": (HARSH, 6),
    "manifest published before payload": (HARSH, 2),
    "blind retry after a lost reply": (HARSH, 36),
    "lost reply read as success": (HARSH, 7),
    "counter by list and add": (HARSH, 17),
    "number taken although the reply was lost": (HARSH, 99),
    "no look at the claim after reading the ledger": (HARSH, 938),
    "ledger without compare and set": (HARSH, 980),
    "no done record before completing": (HARSH, 0),
    "payload renamed back on replay": (HARSH, 25),
    "replay claimed without being begun": (HARSH, 267),
    "begun replay not looked after": (SLEEPY, 2945),
    "claim that is not exclusive": (HARSH, 12),
    "publish that replaces": (HARSH, 269),
    "same owner id after a lost lease": (HARSH, 1531),
    "archived never written": (HARSH, 5),
    "archived by an old listing": (HARSH, 24),
    "sweep deletes a before token whose payload is ready": (HARSH, 23),
    "payload put away without a look": (HARSH, 4),
    "given up without a record": (HARSH, 21),
}
MOST = 4000


def _find(name: str, odds: Odds, first: int) -> int | None:
    """The seed of the first schedule that violates a promise while the rule is broken, and holds while it is not."""
    seeds: list[int] = [first, *range(MOST)]
    for seed in seeds:
        if _is_violated(name, odds, seed):
            Simulation(seed, odds).run()
            return seed
    return None


def _is_violated(name: str, odds: Odds, seed: int) -> bool:
    with MUTATIONS[name].applied():
        try:
            Simulation(seed, odds).run()
        except Violation:
            return True
    return False


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_found(name: str) -> None:
    odds, seed = FOUND_BY[name]
    with remembering():
        assert _find(name, odds, seed) is not None, f"{MUTATIONS[name].rule}: nobody noticed in {MOST} schedules"


def test_at_least_ten_rules_are_broken() -> None:
    assert len(MUTATIONS) >= 20
    assert len({mutation.rule for mutation in MUTATIONS.values()}) == len(MUTATIONS)
    assert {HARSH, SLEEPY} == {odds for odds, _ in FOUND_BY.values()}
