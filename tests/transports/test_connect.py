"""One function gives the backend that a URL names, and loads no other."""

import subprocess
import sys
from pathlib import Path

import pytest

from transports.connect import connect
from transports.contract.place import content, fill, names
from transports.endpoint import Endpoint
from transports.errors import NotFound, Unsupported
from transports.urls import parse_url


def endpoint(url: str) -> Endpoint:
    return Endpoint(parse_url(url))


def test_a_file_url_and_a_plain_path_are_one_place(tmp_path: Path) -> None:
    with connect(endpoint(f"file://{tmp_path}")) as one, connect(endpoint(str(tmp_path))) as other:
        fill(one, "x", b"data")
        assert content(other, "x") == b"data"


def test_a_memory_url_names_a_store_and_a_folder_in_it() -> None:
    with connect(endpoint("memory://test_connect")) as outer:
        outer.make_dir("in")
        with connect(endpoint("memory://test_connect/in")) as inner:
            fill(inner, "x")
        assert names(outer, "in") == ["x"]
    with pytest.raises(NotFound):
        connect(endpoint("memory://test_connect/not-there"))


def test_an_fsspec_url_names_protocol_and_path(tmp_path: Path) -> None:
    (tmp_path / "a?b#c").mkdir()
    with connect(endpoint(f"fsspec+file://{tmp_path}/a?b#c")) as transport:
        fill(transport, "x?y", b"data")
    assert (tmp_path / "a?b#c" / "x?y").read_bytes() == b"data", "nothing is cut off at a '?'"
    with pytest.raises(NotFound, match="not-there"):
        connect(endpoint("fsspec+memory://not-there"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("fsspec+sftp://host/x", "write the URL with sftp://"),
        ("fsspec+ssh://host/x", "write the URL with sftp://"),
        ("fsspec+smb://host/x", "write the URL with smb://"),
        ("fsspec+nonsense://x", "cannot open 'nonsense'"),
        ("fsspec+gdrive://x", "cannot open 'gdrive'"),
    ],
)
def test_what_fsspec_cannot_or_should_not_open_is_said(url: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        connect(endpoint(url))


def test_a_local_hand_off_loads_no_network_library(tmp_path: Path) -> None:
    script = (
        "import sys; from transports.connect import connect; from transports.endpoint import Endpoint;"
        "from transports.urls import parse_url; connect(Endpoint(parse_url(sys.argv[1]))).close();"
        "print([name for name in ('paramiko', 'smbprotocol', 'fsspec') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert shown.stdout.strip() == "[]"
