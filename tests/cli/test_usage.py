"""Wrong input is told in one line that says what to do, changes nothing, and ends with exit code 2."""

import pytest

from tests.cli.tools import Place, names

SEND = ("send", "./drop", "a.csv", "--group", "orders_")
RECEIVE = ("receive", "./drop", "--group", "orders_", "--to", "inbox", "--once")
PREFIX = (
    "does not fit: letters, digits, '.', '_', '-', beginning with a letter or digit, not ending in a digit, and not "
    "beginning with one capital letter and '_'; for example 'orders_'"
)

# What is typed, and what is answered.
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no such command": (("sned",), "No such command 'sned'."),
    "no drop": (("send",), "Missing argument 'DROP'."),
    "no file": (("send", "./drop", "--group", "orders_"), "Missing argument 'FILE'."),
    "no group": (("send", "./drop", "a.csv"), "Missing option '--group'."),
    "no such option": ((*SEND, "--colour", "red"), "No such option: --colour"),
    "no number": ((*SEND, "--sequence", "x"), "Invalid value for '--sequence'"),
    "a number below nothing": ((*SEND, "--sequence", "-1"), "Invalid value for '--sequence'"),
    "a number that does not fit": (
        (*SEND, "--sequence", "99999999999"),
        "--sequence 99999999999 is too large: a number has 10 digits here (--width)",
    ),
    "numbers that come to an end on the way": (
        ("send", "./drop", "a.csv", "a.csv", "--group", "orders_", "--width", "2", "--sequence", "99"),
        "--sequence 99 is too large: a number has 2 digits here (--width)",
    ),
    "a group that is a mark": ((*SEND[:-1], "B_x"), f"group prefix 'B_x' {PREFIX}"),
    "a group that ends in a digit": ((*SEND[:-1], "orders1"), f"group prefix 'orders1' {PREFIX}"),
    "a group that is a path": ((*SEND[:-1], "../x_"), f"group prefix '../x_' {PREFIX}"),
    "a suffix that is a path": (
        (*SEND, "--suffix", "../x"),
        "a.csv: suffix '../x' is not letters and digits joined by single dots, such as 'csv' or 'tar.gz'",
    ),
    "a suffix of ours": (
        (*SEND, "--suffix", "manifest.json"),
        "a.csv: suffix 'manifest.json' is reserved for dropgate's own files; choose another, such as 'json' or 'txt'",
    ),
    "an empty suffix": ((*SEND, "--suffix", ""), "--suffix is empty; leave it out to keep the file's own"),
    "a name without a suffix": (
        ("send", "./drop", "plain", "--group", "orders_"),
        "plain: 'plain' has no suffix that a drop can use; give one with --suffix, such as --suffix csv",
    ),
    "a fact without a value": ((*SEND, "--meta", "ab"), "--meta 'ab' is not of the form k=v"),
    "a fact without a name": ((*SEND, "--meta", "=b"), "--meta '=b' is not of the form k=v"),
    "a fact twice": ((*SEND, "--meta", "a=b", "--meta", "a=c"), "--meta a is given twice"),
    "an empty key": ((*SEND, "--key", ""), "--key is empty; leave it out to get a fresh one"),
    "a key of two lines": ((*SEND, "--key", "a\nb"), "--key holds a line break, a control character or a broken character"),
    "one key for many": (
        ("send", "./drop", "a.csv", "a.csv", "--group", "orders_", "--key", "k"),
        "--key names one hand-off; send one file, or several with --bundle",
    ),
    "a layout that is not known": ((*SEND, "--layout", "flat"), "Invalid value for '--layout'"),
    "a signal that is not known": ((*SEND, "--signal", "ready"), "Invalid value for '--signal'"),
    "a width that no name has": ((*SEND, "--width", "40"), "Invalid value for '--width'"),
    "a pinned key for a folder": ((*SEND, "--host-key", "SHA256:x"), "--host-key belongs to an sftp:// drop, and file://"),
    "a pinned key that is none": (
        ("status", "sftp://h/x", "--host-key", "SHA256:abc"),
        "--host-key is not a fingerprint as `ssh-keygen -l` shows it: SHA256: and 43 characters",
    ),
    "a name and no configuration": (
        ("status", "drop"),
        "'drop' is no drop of the configuration: there is no configuration file (--config, DROPGATE_CONFIG, ./dropgate.toml). "
        "For a folder here, write ./drop",
    ),
    "no name at all": (("status", ""), "'' is no drop of the configuration: there is no configuration file"),
    "a name that the configuration has not": (
        ("status", "other", "--config", "good.toml"),
        "'other' is no drop of the configuration: good.toml has here, there. For a folder here, write ./other",
    ),
    "a width for a drop that has one": (
        ("status", "here", "--config", "good.toml", "--width", "4"),
        "--width: [drop.here] of the configuration says that, not the command line",
    ),
    "a configuration that is not there": (("status", "x", "--config", "nope.toml"), "there is no configuration file nope.toml"),
    "a scheme that is not known": (
        ("status", "ftp://u:geheim@h/x"),
        "not a drop URL: unknown scheme 'ftp'; known are sftp, smb, file, memory and fsspec+<protocol>",
    ),
    "a password that is not encoded": (
        ("status", "sftp://u:ge/heim@h/x"),
        "not a drop URL: the port is not a number from 1 to 65535 (a '/' in a password is written %2F)",
    ),
    "a share without a name": (("status", "smb://h"), "not a drop URL: a share is missing after the host"),
    "nowhere to put it": (RECEIVE[:4], "say where items go: either --to DIR or --exec 'COMMAND {}'"),
    "two places to put it": ((*RECEIVE, "--exec", "cat {}"), "say where items go: either --to DIR or --exec 'COMMAND {}'"),
    "names for a command": (
        (*RECEIVE[:4], "--exec", "cat {}", "--original-names"),
        "--original-names goes with --to",
    ),
    "a folder that is not there": ((*RECEIVE[:5], "nope"), "--to nope: there is no such folder; make it first"),
    "a folder that is a file": ((*RECEIVE[:5], "a.csv"), "--to a.csv: there is no such folder; make it first"),
    "an empty command": ((*RECEIVE[:4], "--exec", " "), "the command is empty; give a program"),
    "half a quotation": ((*RECEIVE[:4], "--exec", "a 'b"), "cannot be split into words: No closing quotation"),
    "strict order by many": (
        (*RECEIVE, "--ordering", "strict", "--workers", "2"),
        "--ordering strict takes one item at a time; leave --workers out",
    ),
    "an order that is not known": ((*RECEIVE, "--ordering", "lifo"), "Invalid value for '--ordering'"),
    "no worker at all": ((*RECEIVE, "--workers", "0"), "Invalid value for '--workers'"),
    "no configuration to run": (("run", "nope.toml"), "there is no configuration file nope.toml"),
    "a configuration that is a folder": (("run", "drop"), "drop is a folder, not a configuration file"),
    "a configuration without a route": (("run", "good.toml"), "good.toml has no [[route]]; nothing would be done"),
    "a configuration with faults": (
        ("run", "bad.toml"),
        "bad.toml cannot be used:\n  drop.a.uri: this key is not known; is `url` meant?\n  drop.a: give either endpoint",
    ),
}  # fmt: skip


@pytest.fixture
def prepared(place: Place) -> Place:
    place.drop()
    (place.folder / "inbox").mkdir()
    place.write("a.csv")
    place.write("plain")
    place.write("good.toml", '[drop.here]\nurl = "drop"\n[drop.there]\nurl = "inbox"\n')
    place.write("bad.toml", '[drop.a]\nuri = "sftp://u:geheim@h/x"\n')
    return place


@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG.keys())
def test_it_is_told_and_nothing_was_done(prepared: Place, words: tuple[str, ...], message: str) -> None:
    before = names(prepared.folder)
    answer = prepared.call(*words)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert "geheim" not in answer.err
    assert "ge/heim" not in answer.err
    assert names(prepared.folder) == before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--colour",), 2),
        (("send", "--colour"), 2),
        ((*SEND, "--layout", "flat"), 2),
        (("status", "./nowhere"), 3),
        (("status", "sftp://127.0.0.1:1/x"), 3),
        (("status", "./drop"), 0),
        (("--help",), 0),
    ],
)
def test_the_exit_codes_of_real_processes(prepared: Place, words: tuple[str, ...], code: int) -> None:
    ended = prepared.run(*words)
    assert ended.code == code
    assert "Traceback" not in ended.err
    if code == 0:
        assert ended.err == ""
    else:
        assert ended.out == ""
        assert len(ended.err.splitlines()) <= 4, "short enough to be read"


def test_help_tells_every_option_of_every_command(place: Place) -> None:
    overview = place.call("--help").out
    for command in ("send", "receive", "run", "status"):
        (line,) = [line for line in overview.splitlines() if line.split()[:1] == [command]]
        assert line.endswith("."), "its first sentence is short enough to be shown whole"
        shown = place.call(command, "--help").out
        assert f" {command} [OPTIONS]" in shown.splitlines()[0]
        assert "<str>" not in shown.partition("Options:")[2], "each option says what it takes in words of its own"
    assert "Exit codes: 0 done, 1 some item failed, 2 usage or configuration, 3 endpoint" in overview


def test_the_command_alone_shows_its_help(place: Place) -> None:
    answer = place.call()
    assert answer.code == 2
    assert "Commands:" in answer.out + answer.err
