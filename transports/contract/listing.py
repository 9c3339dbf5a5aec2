"""Names: listed whatever they are, matched by exact case, taken exactly or refused, and never unsafe."""

from collections.abc import Callable

import pytest

from transports.base import Kind, Transport
from transports.contract.place import REFUSALS, ContractBase, content, fill, names, refused, same
from transports.errors import AlreadyExists, NotFound, UnsafePath

# Each means something else to some server, shell or library.
ODD_NAMES = (
    ".hidden",
    "-rf",
    "~",
    "~x",
    "a b",
    " lead",
    "trail ",
    "trail.",
    "...",
    "CON",
    "aux.csv",
    "COM1.txt",
    "a:b",
    "a*b",
    "a?b",
    'a"b',
    "a<b>c",
    "a|b",
    "a;b",
    "a&b",
    "$(x)",
    "`x`",
    "a'b",
    "%41",
    "%2e%2e",
    "a#b",
    "[ab]",
    "{a,b}",
    "::x",
    "http:x",
    "Rechnung März.csv",
    "u\u0308 decomposed",
    "\u4f60\u597d",
    "\U0001f4be",
    "\u202egnp.exe",
    "\u00a0",
)

UNSAFE_PATHS = ("..", ".", "../x", "a/../b", "a/./b", "/etc/passwd", "a//b", "a/", "a\\b", "a\0b", "a\nb", "a\x7fb", "a\udcffb")


def _members(transport: Transport, path: str) -> dict[str, Callable[[], object]]:
    """Every member that takes a path, called with one."""
    return {
        "create": lambda: transport.create(path),
        "open_read": lambda: transport.open_read(path),
        "resume": lambda: transport.resume(path, 0),
        "publish": lambda: transport.publish(path, "y"),
        "claim": lambda: transport.claim(path, "y"),
        "replace": lambda: transport.replace(path, "y"),
        "scan": lambda: list(transport.scan(path)),
        "stat": lambda: transport.stat(path),
        "delete": lambda: transport.delete(path),
        "make_dir": lambda: transport.make_dir(path),
        "remove_dir": lambda: transport.remove_dir(path),
        "same_volume": lambda: transport.same_volume("", path),
        "server_time": lambda: transport.server_time(path),
        "free_space": lambda: transport.free_space(path),
        "wait_for_change": lambda: transport.wait_for_change(path, 0),
    }


class ListingContract(ContractBase):
    """`scan`, and the names that every member takes."""

    def test_a_scan_tells_names_kinds_and_sizes(self, transport: Transport) -> None:
        assert list(transport.scan()) == []
        fill(transport, "x", b"12345")
        fill(transport, "empty", b"")
        transport.make_dir("folder")
        fill(transport, "folder/below", b"123")
        entries = {entry.name: entry for entry in transport.scan()}
        assert sorted(entries) == ["empty", "folder", "x"]
        assert (entries["x"].kind, entries["x"].size) == (Kind.FILE, 5)
        assert (entries["empty"].kind, entries["empty"].size) == (Kind.FILE, 0)
        assert entries["folder"].kind is Kind.FOLDER
        assert names(transport, "folder") == ["below"]

    def test_a_scan_of_a_folder_that_is_not_there(self, transport: Transport) -> None:
        for path in ("nothing", "nowhere/nothing"):
            with pytest.raises(NotFound) as caught:
                list(transport.scan(path))
            assert (caught.value.operation, caught.value.path) == ("scan", path)
        fill(transport, "file")
        with refused("scan"):
            list(transport.scan("file"))

    def test_a_pattern_goes_by_exact_case_and_knows_two_signs(self, transport: Transport) -> None:
        for name in ("B_x1.csv", "b_x2.csv", "B_x1.csv.sha256", "ready.csv", "[x].csv"):
            fill(transport, name)
        assert names(transport, pattern="B_*") == ["B_x1.csv", "B_x1.csv.sha256"]
        assert names(transport, pattern="b_*") == ["b_x2.csv"]
        assert names(transport, pattern="?_x?.csv") == ["B_x1.csv", "b_x2.csv"]
        assert names(transport, pattern="*.csv") == ["B_x1.csv", "[x].csv", "b_x2.csv", "ready.csv"]
        assert names(transport, pattern="ready.csv") == ["ready.csv"]
        assert names(transport, pattern="READY.CSV") == []
        assert names(transport, pattern="[x].*") == ["[x].csv"]
        for pattern in ("[Bb]_*", "<.csv", ">_x1.csv", 'B_x1".csv', "*.", "none*"):
            assert names(transport, pattern=pattern) == [], f"{pattern!r} has no special meaning and fits nothing"

    def test_other_calls_are_made_during_a_scan(self, transport: Transport) -> None:
        expected = [f"x_{number:03}" for number in range(120)]
        for name in expected:
            fill(transport, name, name.encode())
        seen = []
        for turn, entry in enumerate(transport.scan()):
            seen.append(entry.name)
            if turn % 10 == 0:
                assert content(transport, entry.name) == entry.name.encode()
                assert transport.stat(entry.name).size == len(entry.name)
                assert len(names(transport)) == len(expected), "a second scan goes beside the first"
        assert sorted(seen) == expected

    def test_renames_during_a_scan_lose_no_other_name(self, transport: Transport) -> None:
        stay = [f"stay_{number:03}" for number in range(60)]
        move = [f"move_{number:03}" for number in range(60)]
        for name in stay + move:
            fill(transport, name)
        seen = []
        for entry in transport.scan():
            seen.append(entry.name)
            if move:
                name = move.pop()
                transport.claim(name, f"C_{name}")
        assert sorted(name for name in seen if name.startswith("stay")) == stay

    def test_an_abandoned_scan_leaves_nothing_open(self, transport: Transport) -> None:
        transport.make_dir("folder")
        for number in range(40):
            fill(transport, f"folder/x_{number:02}")
        for _ in range(30):
            listing = transport.scan("folder")
            next(listing)
            del listing
        for entry in transport.scan("folder"):
            transport.delete(f"folder/{entry.name}")
        transport.remove_dir("folder")
        assert names(transport) == []

    def test_a_name_is_taken_exactly_or_refused(self, transport: Transport) -> None:
        for name in ODD_NAMES:
            data = name.encode()
            try:
                fill(transport, name, data)
            except REFUSALS:
                assert names(transport) == [], f"{name!r} was refused, and something was made all the same"
                continue
            assert names(transport) == [name], f"{name!r} is listed differently"
            assert same(content(transport, name), data)
            transport.publish(name, "other")
            transport.claim("other", name)
            assert names(transport) == [name]
            transport.delete(name)

    def test_names_that_differ_by_case_are_two_or_the_second_is_refused(self, transport: Transport) -> None:
        fill(transport, "x.csv", b"lower")
        try:
            fill(transport, "X.csv", b"upper")
        except AlreadyExists:
            assert names(transport) == ["x.csv"]
        else:
            assert names(transport) == ["X.csv", "x.csv"]
            assert content(transport, "X.csv") == b"upper"
        assert content(transport, "x.csv") == b"lower"

    def test_the_longest_name_is_as_long_as_is_said(self, transport: Transport) -> None:
        longest = "x" * transport.capabilities.longest_name
        fill(transport, longest, b"data")
        assert names(transport) == [longest]
        with refused("create"):
            transport.create(f"{longest}x")
        assert names(transport) == [longest]

    def test_an_unsafe_path_is_refused_by_every_member_and_harms_nothing(self, transport: Transport) -> None:
        fill(transport, "a", b"data")
        for path in UNSAFE_PATHS:
            for member, call in _members(transport, path).items():
                with pytest.raises(UnsafePath) as caught:
                    call()
                assert caught.value.operation == member
            for rename in (transport.publish, transport.claim, transport.replace):
                with pytest.raises(UnsafePath):
                    rename("a", path)
        assert names(transport) == ["a"], "the connection lives, and nothing was made or moved"
        assert content(transport, "a") == b"data"

    def test_the_root_is_not_to_be_changed(self, transport: Transport) -> None:
        fill(transport, "a", b"data")
        for member in ("create", "open_read", "publish", "claim", "replace", "delete", "make_dir", "remove_dir"):
            with refused(member):
                _members(transport, "")[member]()
        assert content(transport, "a") == b"data"
