"""The main job on real input: local -> SFTP -> SMB -> local, by real processes, against real servers.

dropgate send  ─>  source ──(first service)──> SFTP ──(second)──> SMB ──(second)──> final  ─>  dropgate receive
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testenv.servers import SftpServer, SmbServer
from tests.e2e.commands import DROPGATE, Service, clean_environment, dropgate, service
from tests.e2e.real_files import KINDS, LARGE, RealFile, digest_of, find_files, make_files

GROUP = "real_"
COUNT = 300
SENDERS = 3
ARRIVE_WITHIN = 420.0  # seconds; a bound for the slowest machine, far above what it takes


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder that is removed at once: several hundred MiB are too much to be kept for later."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def configure(place: Path, sftp: SftpServer, sftp_dir: str, smb: SmbServer, smb_dir: str) -> tuple[Path, Path]:
    """Two configurations, for two processes that meet in the SFTP drop alone."""
    for folder in ("source", "final", "received"):
        (place / folder).mkdir()
    (place / "smb-password").write_text(f"{smb.password}\n")
    over_sftp = f"""
        [endpoint.bank]
        url = "sftp://{sftp.user}@{sftp.host}:{sftp.port}{sftp.data}"
        host_key = "{sftp.host_key}"

        [drop.middle]
        endpoint = "bank"
        directory = "{sftp_dir}"
        groups = ["{GROUP}"]
    """
    first = place / "first.toml"
    first.write_text(
        f"""
        {over_sftp}
        [drop.source]
        url = "source"
        groups = ["{GROUP}"]

        [[route]]
        from = "source"
        to = "middle"
        poll = 0.2
        """
    )
    second = place / "second.toml"
    second.write_text(
        f"""
        {over_sftp}
        [endpoint.office]
        url = "smb://{smb.domain};{smb.user}@{smb.host}:{smb.port}/{smb.data}"
        password_file = "smb-password"

        [drop.share]
        endpoint = "office"
        directory = "{smb_dir}"
        groups = ["{GROUP}"]

        [drop.final]
        url = "final"

        [[route]]
        from = "middle"
        to = "share"
        poll = 0.2

        [[route]]
        from = "share"
        to = "final"
        poll = 0.2
        """
    )
    return first, second


def send_all(files: list[RealFile], config: Path, password: str) -> dict[str, RealFile]:
    """Several `dropgate send` at once, as several producers would; what each item was made of."""
    batches = [
        (["--suffix", "bin"] if not fits else [], [file for file in files if file.fits is fits][start::SENDERS])
        for fits in (True, False)
        for start in range(SENDERS)
    ]
    environment = clean_environment(DROPGATE_ENDPOINT__BANK__PASSWORD=password)
    senders = []
    for options, batch in batches:
        if batch:
            words = [DROPGATE, "send", "source", "--group", GROUP, "--config", str(config), "--json", *options]
            paths = [str(file.path) for file in batch]
            output = subprocess.PIPE
            senders.append(subprocess.Popen([*words, *paths], env=environment, stdout=output, stderr=output, text=True))
    by_path = {str(file.path): file for file in files}
    sent: dict[str, RealFile] = {}
    for sender in senders:
        with sender:
            results, complaints = sender.communicate(timeout=ARRIVE_WITHIN)
        assert sender.returncode == 0, complaints
        for line in results.splitlines():
            told = json.loads(line)
            (path,) = told["files"]
            assert told["item"] not in sent, "no number is handed out twice"
            assert told["hashes"] == [f"sha256:{by_path[path].digest}"]
            sent[told["item"]] = by_path[path]
    return sent


def wait_for_arrival(final: Path, count: int, services: list[Service]) -> None:
    """Looks as a person would, with `ls`."""
    deadline = time.monotonic() + ARRIVE_WITHIN
    while (arrived := len(list(final.glob(f"{GROUP}*.manifest.json")))) < count:
        for running in services:
            assert running.process.poll() is None, f"a service has ended by itself: {running.tail()}"
        logs = "\n".join(running.tail() for running in services)
        assert time.monotonic() < deadline, f"{arrived} of {count} items have arrived in {ARRIVE_WITHIN} s: {logs}"
        time.sleep(0.2)


@pytest.mark.timeout(900)
def test_real_input_crosses_four_drops_unchanged(
    place: Path, sftp_server: SftpServer, sftp_dir: str, smb_server: SmbServer, smb_dir: str
) -> None:
    made = place / "made"
    made.mkdir()
    files = find_files(COUNT) + make_files(made)
    assert len(files) >= 300
    suffixes = {file.path.suffix.lower() for file in files}
    for kind, some in KINDS.items():
        assert suffixes & some, f"no {kind} were found on this machine"
    assert {0, LARGE} <= {file.path.stat().st_size for file in files}

    first, second = configure(place, sftp_server, sftp_dir, smb_server, smb_dir)
    secret = {"DROPGATE_ENDPOINT__BANK__PASSWORD": sftp_server.password}
    with service(first, **secret) as to_sftp, service(second, **secret) as onwards:
        sent = send_all(files, first, sftp_server.password)
        assert {file.path for file in sent.values()} == {file.path for file in files}
        wait_for_arrival(place / "final", len(sent), [to_sftp, onwards])
        assert [to_sftp.stop(), onwards.stop()] == [0, 0]
    output = dropgate(
        *("receive", "./final", "--group", GROUP, "--to", "received", "--once", "--json"), cwd=place, within=ARRIVE_WITHIN
    )
    assert {json.loads(line)["item"] for line in output.splitlines()} == set(sent)

    received = {path.name.partition(".")[0]: path for path in (place / "received").iterdir()}
    assert set(received) == set(sent), "every item is there once, and nothing else"
    wrong = [str(file.path) for item, file in sent.items() if digest_of(received[item]) != file.digest]
    assert wrong == [], "every byte is equal"
    for item, file in sent.items():
        manifest = json.loads((place / "final" / f"A_{item}.manifest.json").read_text(encoding="utf-8"))
        assert manifest["files"][0]["source_name"] == file.path.name

    expected = {f"A_{item}.manifest.json" for item in sent} | {f"A_{path.name}" for path in received.values()}
    local_views = {
        "SFTP": sftp_server.local(sftp_dir),
        "SMB": smb_server.local("data", smb_dir),
        "final": place / "final",
    }
    for title, folder in local_views.items():
        assert folder is not None
        assert {path.name for path in folder.iterdir()} == expected, f"the {title} drop shows only after images"
    helpers = {path.name for path in (place / "source").iterdir()} - expected
    assert helpers == {f"S_{GROUP}origin", f"S_{GROUP}{len(sent) + 1:010}.next"}
    assert expected <= {path.name for path in (place / "source").iterdir()}
