"""The checksum file: what `sha256sum` writes is read, and nothing that could mean another file."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.checksum_file import LARGEST, format_checksums, parse_checksums
from protocol.errors import InvalidChecksumFile
from protocol.names import Grammar, ItemId, Name
from tests.protocol.strategies import payload_suffixes

G = Grammar()
ITEM = ItemId("orders_", 42)
DIGEST = "0f" * 32
LINE = f"{DIGEST}  orders_0000000042.csv\n"


@given(st.dictionaries(payload_suffixes, st.from_regex(r"\A[0-9a-f]{64}\Z"), min_size=1, max_size=4))
def test_what_is_written_is_read_back(digests: dict[str, str]) -> None:
    if len({suffix.lower() for suffix in digests}) == len(digests):
        data = format_checksums({G.format(Name(ITEM, suffix)): digest for suffix, digest in digests.items()})
        assert parse_checksums(data, ITEM, G) == {Name(ITEM, suffix): digest for suffix, digest in digests.items()}


@pytest.mark.parametrize(
    "text",
    [
        LINE,
        LINE.upper().replace("ORDERS", "orders").replace("CSV", "csv"),
        LINE.replace("  ", " *"),
        LINE.replace("\n", "\r\n"),
    ],
)
def test_either_case_either_mode_and_either_line_end_are_read(text: str) -> None:
    assert parse_checksums(text.encode(), ITEM, G) == {Name(ITEM, "csv"): DIGEST}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 bytes"),
        (LINE[:-1], "does not end with a newline"),
        ("\n", "line 1"),
        (LINE + "\n", "line 2"),
        (LINE + "# made by hand\n", "line 2"),
        (LINE.replace("  ", " "), "line 1"),
        (LINE.replace("  ", "\t"), "line 1"),
        (" " + LINE, "line 1"),
        (LINE[1:], "line 1"),
        ("\\" + LINE, "line 1"),
        ("0" + LINE, "line 1"),
        (LINE.replace("0f", "0g"), "line 1"),
        (f"SHA256 (orders_0000000042.csv) = {DIGEST}\n", "line 1"),
        (LINE * 2, "again"),
        (LINE + LINE.replace("csv", "CSV"), "again"),
        (LINE.replace("42", "43"), "no file of this item"),
        (LINE.replace("orders", "Orders"), "no file of this item"),
        (LINE.replace("orders", "B_orders"), "no file of this item"),
        (LINE.replace("orders", "A_orders"), "no file of this item"),
        (LINE.replace("orders", "./orders"), "no file of this item"),
        (LINE.replace("orders", "../orders"), "no file of this item"),
        (LINE.replace("orders", "/drop/orders"), "no file of this item"),
        (LINE.replace("csv", "csv "), "no file of this item"),
        (LINE.replace("csv", "csv\0"), "no file of this item"),
        (LINE.replace("csv", "csv\r\r"), "no file of this item"),
        (LINE.replace("csv", "csv.sha256"), "not a payload"),
        (LINE.replace("csv", "manifest.json"), "not a payload"),
        (LINE.replace("csv", "cs\u00fc"), "outside ASCII"),
        (LINE * (LARGEST // len(LINE) + 1), "bytes"),
    ],
)
def test_anything_else_is_refused_and_the_line_is_named(text: str, why: str) -> None:
    with pytest.raises(InvalidChecksumFile, match=why):
        parse_checksums(text.encode(), ITEM, G)


def test_a_file_that_is_truncated_anywhere_is_refused() -> None:
    for end in range(len(LINE)):
        with pytest.raises(InvalidChecksumFile):
            parse_checksums(LINE.encode()[:end], ITEM, G)


def test_the_largest_file_is_read_at_once() -> None:
    lines = LARGEST // 100
    text = "".join(f"{DIGEST}  orders_0000000042.x{n:05d}\n" for n in range(lines))
    assert len(parse_checksums(text.encode(), ITEM, G)) == lines


def test_what_sha256sum_writes_is_read_and_what_we_write_it_accepts(tmp_path: Path) -> None:
    tool = shutil.which("sha256sum")
    assert tool is not None, "coreutils are part of every system that this project is tested on"
    payloads = {"csv": b"a;b\n", "tar.gz": bytes(range(256)), "txt": b""}
    for suffix, content in payloads.items():
        (tmp_path / f"orders_0000000042.{suffix}").write_bytes(content)
    names = [f"orders_0000000042.{suffix}" for suffix in payloads]
    expected = {Name(ITEM, suffix): hashlib.sha256(content).hexdigest() for suffix, content in payloads.items()}
    for mode in ("--text", "--binary"):
        written = subprocess.run([tool, mode, *names], cwd=tmp_path, capture_output=True, check=True, timeout=20).stdout
        assert parse_checksums(written, ITEM, G) == expected
    ours = format_checksums({G.format(name): digest for name, digest in expected.items()})
    (tmp_path / "sums").write_bytes(ours)
    subprocess.run([tool, "--check", "--strict", "sums"], cwd=tmp_path, capture_output=True, check=True, timeout=20)
