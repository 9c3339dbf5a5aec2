"""Hypothesis strategies for what stands in names, and the grammar of PROTOCOL section 2 a second time, by brute force."""

import re
import string
from dataclasses import replace

from hypothesis import strategies as st

from protocol.errors import InvalidName
from protocol.layout import FolderLayout, Layout, PrefixLayout
from protocol.names import CHECKSUM_SUFFIX, MANIFEST_SUFFIX, REASON_SUFFIX, RECEIPT_SUFFIX, Grammar, ItemId, Name, check_owner
from protocol.states import State

RESERVED = (MANIFEST_SUFFIX, CHECKSUM_SUFFIX, REASON_SUFFIX, RECEIPT_SUFFIX, "csv.sha256", "tar.gz.sha256")
NASTY = [
    *'/\\\0\n\r\t\x7f +._-:*?"<>|~ aZ09BCDAELST',
    "é",
    "\u0663",
    "\uff10",
    "\u200b",
    "\ud800",
    "\u017f",
    "..",
    "+1",
    "+01",
    "B_",
    "b_",
]

grammars = st.sampled_from([1, 2, 3, 10, 18]).map(Grammar)


def _valid_prefix(grammar: Grammar, prefix: str) -> bool:
    try:
        grammar.check_prefix(prefix)
    except InvalidName:
        return False
    return True


def _valid_owner(owner: str) -> bool:
    try:
        check_owner(owner)
    except InvalidName:
        return False
    return True


_NEAR_REFUSAL = (
    " orders_ a a.b_ a.b. 0000000001.b_ 12.x- con_ com x.1_ origin seed a_origin aB_ b_orders_ c_h-1_orders_ next"
    " lease.json S orders.next processing- 7-"
)
_prefix_texts = st.one_of(st.sampled_from(_NEAR_REFUSAL.split(" ")), st.text("aZ019._-", max_size=12))


def prefixes(grammar: Grammar) -> st.SearchStrategy[str]:
    """Group prefixes that the grammar takes, many of them close to what it refuses."""
    return _prefix_texts.filter(lambda prefix: _valid_prefix(grammar, prefix))


owners = st.one_of(
    st.sampled_from(["h-1-a", "-", "0", "x" * 32, "lease", "seed", "b"]), st.text("az09-", min_size=1, max_size=32)
).filter(_valid_owner)

payload_suffixes = st.one_of(
    st.sampled_from(["csv", "tar.gz", "json", "0000000042.csv", "x.manifest.json", "1", "Sha256x", "next", "CSV"]),
    st.lists(st.text("azZ09", min_size=1, max_size=4), min_size=1, max_size=3).map(".".join),
).filter(lambda suffix: suffix.lower() not in RESERVED and not suffix.lower().endswith(".sha256"))

suffixes = st.one_of(payload_suffixes, st.sampled_from(RESERVED))


@st.composite
def names(draw: st.DrawFn, grammar: Grammar) -> Name:
    """Any file of an item, in any state."""
    item = ItemId(draw(prefixes(grammar)), draw(st.integers(0, grammar.largest)))
    state = draw(st.sampled_from(State))
    owner = draw(owners) if state is State.CLAIMED else ""
    again = draw(st.sampled_from([0, 0, 1, 2, 10, 999])) if state in (State.AFTER, State.ERROR) else 0
    name = Name(item, draw(suffixes), state, owner, again)
    # Width 1 and the prefix "com" make a device of some numbers.
    return replace(name, item=ItemId("orders_", item.number)) if item.group.lower() in ("com", "lpt") else name


layouts = grammars.flatmap(
    lambda grammar: st.sampled_from(
        [PrefixLayout(grammar), FolderLayout(grammar), FolderLayout(grammar, ("novye", "v rabote", "готово", "bityye", "x"))]
    )
)


def layouts_with_names() -> st.SearchStrategy[tuple[Layout, Name]]:
    return layouts.flatmap(lambda layout: st.tuples(st.just(layout), names(layout.grammar)))


_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE | re.ASCII)


def is_device(text: str) -> bool:
    return _DEVICE.fullmatch(text) is not None


def is_prefix(text: str) -> bool:
    """The prefix of section 2, as its sentence says it."""
    if not text:
        return True
    alphabet = set(string.ascii_letters + string.digits + "._-")
    marked = len(text) > 1 and text[0] in string.ascii_uppercase and text[1] == "_"
    return set(text) <= alphabet and text[0] not in "._-" and text[-1] not in string.digits and not marked


def cuts(text: str, width: int) -> list[tuple[str, int, int, str]]:
    """Every way in which a text without a mark fits the grammar, the shortest prefix first."""
    rest = re.compile(rf"([0-9]{{{width}}})(?:\+([1-9][0-9]*))?\.([A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*)", re.ASCII)
    found = []
    for start in range(len(text)):
        match = rest.fullmatch(text[start:])
        if match and is_prefix(text[:start]):
            found.append((text[:start], int(match[1]), int(match[2] or 0), match[3]))
    return found


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """A text with one to three small changes, most of them of the kind that an attacker or an accident would make."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(NASTY))
        text = draw(
            st.sampled_from(
                [text[:at] + piece + text[at:], text[:at] + piece + text[at + 1 :], text[:at] + text[at + 1 :], text + piece]
            )
        )
    return text
