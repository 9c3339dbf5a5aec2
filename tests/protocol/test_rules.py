"""The rules of a drop: which file is the token, and which settings contradict each other."""

import pytest
from hypothesis import given

from protocol.errors import InvalidRules
from protocol.hashes import ALGORITHMS
from protocol.layout import FolderLayout
from protocol.names import FileKind, Grammar, ItemId, Name
from protocol.rules import Rules, Signal, Verify
from tests.protocol.strategies import payload_suffixes


@pytest.mark.parametrize(
    ("signal", "token", "suffix"),
    [
        (Signal.MANIFEST, FileKind.MANIFEST, "manifest.json"),
        (Signal.CHECKSUM, FileKind.CHECKSUM, "csv.sha256"),
        (Signal.NONE, FileKind.PAYLOAD, "csv"),
    ],
)
def test_each_signal_has_one_kind_of_token(signal: Signal, token: FileKind, suffix: str) -> None:
    rules = Rules(signal=signal)
    assert [kind for kind in FileKind if rules.is_token(kind)] == [token]
    assert rules.token_suffix("csv") == suffix


@given(payload_suffixes)
def test_the_token_of_any_payload_is_known_for_one(suffix: str) -> None:
    for signal in Signal:
        rules = Rules(signal=signal)
        assert rules.is_token(Name(ItemId("orders_", 1), rules.token_suffix(suffix)).kind)


def test_the_defaults_are_the_protocols() -> None:
    rules = Rules()
    assert (rules.signal, rules.verify, rules.algorithm, rules.busy_patience) == (Signal.MANIFEST, Verify.SIZE, "sha256", 30.0)
    assert rules.grammar == Grammar(10)
    assert Rules(layout=FolderLayout(Grammar(4))).grammar == Grammar(4)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_known_algorithm_may_be_chosen(algorithm: str) -> None:
    assert Rules(algorithm=algorithm).algorithm == algorithm


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(InvalidRules, match="'md5' is not known here"):
        Rules(algorithm="md5")


def test_a_checksum_drop_is_sha256_or_its_own_consumers_would_refuse_it() -> None:
    assert Rules(signal=Signal.CHECKSUM).algorithm == "sha256"
    with pytest.raises(InvalidRules, match="sha256"):
        Rules(signal=Signal.CHECKSUM, algorithm="sha512")


@pytest.mark.parametrize("signal", [Signal.CHECKSUM, Signal.NONE])
def test_trusted_keys_where_nothing_can_be_signed_are_refused(signal: Signal) -> None:
    with pytest.raises(InvalidRules, match="carries no signature"):
        Rules(signal=signal, trusted_keys=frozenset({"k"}))


@pytest.mark.parametrize("patience", [-1.0, float("inf"), float("nan")])
def test_patience_is_a_number_of_seconds(patience: float) -> None:
    with pytest.raises(InvalidRules, match="busy_patience"):
        Rules(busy_patience=patience)
