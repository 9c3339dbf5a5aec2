"""A configuration is read whole, every fault in it is told at once with its key, and no secret is ever shown."""

import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.errors import ConfigurationError
from gateway.settings import find_file, load
from protocol.layout import FolderLayout, PrefixLayout
from protocol.rules import Signal, Verify
from protocol.signature import public_text
from tests.gateway.configurations import GOOD, faults, written
from transports.endpoint import Timeouts

FINGERPRINT = "SHA256:" + "a" * 43

pytestmark = pytest.mark.usefixtures("no_settings_of_ours")


def pem(key: Any) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def test_a_whole_configuration_is_read(tmp_path: Path) -> None:
    settings = load(written(tmp_path, GOOD))
    drop = settings.open_drop("in")
    assert str(drop) == "sftp://orders@files.example:2222/srv/data/in"
    assert drop.groups == ("orders_",)
    assert isinstance(drop.rules.layout, PrefixLayout)
    assert (drop.rules.signal, drop.rules.verify, drop.rules.algorithm) == (Signal.MANIFEST, Verify.SIZE, "sha256")
    assert str(settings.open_drop("out")) == "smb://DOM;user@host/share/out"
    assert settings.route[0].title == "in -> out"


def test_every_setting_reaches_the_drop(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    (tmp_path / "sign.pem").write_bytes(pem(key))
    (tmp_path / "password").write_text("pass/word\n")
    text = f"""
        [endpoint.bank]
        url = "sftp://orders@files.example/~/data"
        password_file = "password"
        key_files = ["keys/id", "/etc/id", "~/id"]
        key_passphrase = "open"
        host_key = "{FINGERPRINT}"
        known_hosts = "known"
        engine = "openssh"
        connect_timeout = 3
        reply_timeout = 4.5
        [drop.in]
        endpoint = "bank"
        directory = "a/b"
        layout = "folders"
        folders = ["novye", "nowe", "v-rabote", "gotovo", "bityye"]
        width = 6
        verify = "readback"
        hash = "blake2b"
        busy_patience = 1.5
        trusted_keys = ["{public_text(key)}"]
        signing_key_file = "sign.pem"
    """
    drop = load(written(tmp_path, text)).open_drop("in")
    endpoint, rules = drop.endpoint, drop.rules
    assert str(endpoint.location) == "sftp://orders@files.example/~/data/a/b"
    assert endpoint.password is not None
    assert endpoint.password.reveal() == "pass/word"
    assert endpoint.key_passphrase is not None
    assert endpoint.key_passphrase.reveal() == "open"
    assert endpoint.key_files == (tmp_path / "keys/id", Path("/etc/id"), tmp_path / "home/id")
    assert (endpoint.host_key, endpoint.known_hosts, endpoint.engine) == (FINGERPRINT, tmp_path / "known", "openssh")
    assert endpoint.timeouts == Timeouts(3, 4.5)
    assert isinstance(rules.layout, FolderLayout)
    assert rules.layout.names == ("novye", "nowe", "v-rabote", "gotovo", "bityye")
    assert (rules.grammar.width, rules.verify, rules.algorithm, rules.busy_patience) == (6, Verify.READBACK, "blake2b", 1.5)
    assert rules.trusted_keys == {public_text(key)}
    assert drop.signing_key is not None
    assert public_text(drop.signing_key) == public_text(key)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("drops/in", "{folder}/drops/in"),
        ("./in", "{folder}/in"),
        ("../in", "{parent}/in"),
        ("/srv/in", "/srv/in"),
        ("~/in", "{home}/in"),
        ("file:///srv/in", "/srv/in"),
    ],
)
def test_folders_are_relative_to_the_file_and_not_to_where_one_stands(tmp_path: Path, url: str, place: str) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    drop = load(written(folder, f'[drop.in]\nurl = "{url}"')).open_drop("in")
    assert drop.endpoint.location.path == place.format(folder=folder, parent=tmp_path, home=tmp_path / "home")


def test_a_relative_file_name_gives_absolute_places(tmp_path: Path) -> None:
    written(Path(), '[drop.in]\nurl = "in"')
    drop = load(Path("dropgate.toml")).open_drop("in")
    assert drop.endpoint.location.path == str(tmp_path / "work" / "in")


ROUTE = '[drop.a]\nurl = "x"\n[drop.b]\nurl = "y"\n[[route]]\nfrom = "a"\nto = "b"'

# What is wrong, and the lines that say so.
WRONG: dict[str, tuple[str, list[str]]] = {
    "a key that is not known": ('[drop.a]\nurl = "x"\nfoo = 1', ["drop.a.foo: this key is not known"]),
    "a table that is not known": ("[drops.a]\n", ["drops: this table is not known; is [drop.NAME] meant?"]),
    "a name of the library's own": (
        "_env_file = '/x'",
        ["_env_file: this key is not known; it stands above the first table, and belongs into one"],
    ),
    "a key that is missing": ("[endpoint.a]\n", ["endpoint.a.url: this key is missing"]),
    "neither endpoint nor url": ("[drop.a]\n", ["drop.a: give either endpoint (with directory) or url"]),
    "both endpoint and url": (
        '[endpoint.e]\nurl = "x"\n[drop.a]\nurl = "x"\nendpoint = "e"',
        ["drop.a: give either endpoint (with directory) or url"],
    ),
    "an endpoint that is not there": (
        '[endpoint.e]\nurl = "x"\n[drop.a]\nendpoint = "f"',
        ["drop.a.endpoint: there is no [endpoint.f]; there are e"],
    ),
    "a directory beside a url": (
        '[drop.a]\nurl = "x"\ndirectory = "y"',
        ["drop.a.directory: belongs to endpoint; with url, put it into the url"],
    ),
    "a directory that leaves the endpoint": (
        '[endpoint.e]\nurl = "x"\n[drop.a]\nendpoint = "e"\ndirectory = "../y"',
        ["drop.a.directory: '../y' is no path below the endpoint's url: of one part, it is empty, '.' or '..'"],
    ),
    "a scheme that is not known": (
        '[drop.a]\nurl = "ftp://h/x"',
        ["drop.a.url: not a drop URL: unknown scheme 'ftp'; known are sftp, smb, file, memory and fsspec+<protocol>. "
         "A right one: sftp://user@host/absolute/path or sftp://user@host/~/below/home"],
    ),
    "scp's way to write it": (
        '[drop.a]\nurl = "user@host:/x"',
        ["drop.a.url: not a drop URL: a ':' before the first '/' and no '://'; a local folder of such a name is written "
         "./name. A right one: sftp://user@host/absolute/path or sftp://user@host/~/below/home"],
    ),
    "a password that is not encoded": (
        '[endpoint.a]\nurl = "sftp://u:se/cret@h/x"',
        ["endpoint.a.url: not a drop URL: the port is not a number from 1 to 65535 (a '/' in a password is written %2F). "
         "A right one: sftp://user@host/absolute/path or sftp://user@host/~/below/home"],
    ),
    "two passwords": (
        '[endpoint.a]\nurl = "sftp://u@h/x"\npassword = "se/cret"\npassword_file = "p"',
        ["endpoint.a.password_file: give password or password_file, not both"],
    ),
    "a password in the url and beside it": (
        '[endpoint.a]\nurl = "sftp://u:se%2Fcret@h/x"\npassword = "other"',
        ["endpoint.a.url: there is a password in it, and another beside it; give one"],
    ),
    "a password that is a number": (
        '[endpoint.a]\nurl = "sftp://u@h/x"\npassword = 12345',
        ["endpoint.a.password: a text in quotes is wanted"],
    ),
    "a host key that is none": (
        '[endpoint.a]\nurl = "sftp://u@h/x"\nhost_key = "MD5:00"',
        ["endpoint.a.host_key: this is no fingerprint as `ssh-keygen -l` shows it: SHA256: and 43 characters"],
    ),
    "a host key for a share": (
        f'[endpoint.a]\nurl = "smb://u@h/x"\nhost_key = "{FINGERPRINT}"',
        ["endpoint.a.host_key: belongs to sftp:// endpoints, and the url is not of that kind"],
    ),
    "encryption of SMB for SFTP": (
        '[endpoint.a]\nurl = "sftp://u@h/x"\nencrypt = true',
        ["endpoint.a.encrypt: belongs to smb:// endpoints, and the url is not of that kind"],
    ),
    "an engine that is not known": (
        '[endpoint.a]\nurl = "sftp://u@h/x"\nengine = "putty"',
        ["endpoint.a.engine: 'paramiko' or 'openssh' is wanted"],
    ),
    "a timeout of nothing": (
        '[endpoint.a]\nurl = "sftp://u@h/x"\nreply_timeout = 0',
        ["endpoint.a.reply_timeout: a number above 0 is wanted"],
    ),
    "a timeout of for ever": (
        '[endpoint.a]\nurl = "sftp://u@h/x"\nconnect_timeout = inf',
        ["endpoint.a.connect_timeout: a number is wanted; inf and nan cannot be used"],
    ),
    "a layout that is not known": (
        '[drop.a]\nurl = "x"\nlayout = "flat"',
        ["drop.a.layout: 'prefix' or 'folders' is wanted"],
    ),
    "folders for the wrong layout": (
        '[drop.a]\nurl = "x"\nfolders = ["a", "b", "c", "d", "e"]',
        ["drop.a.folders: belongs to layout = 'folders'"],
    ),
    "too few folders": (
        '[drop.a]\nurl = "x"\nlayout = "folders"\nfolders = ["a", "b"]',
        ["drop.a.folders: the folder layout needs five names, for temp, incoming, processing, archive, error; 2 given"],
    ),
    "a folder that leaves the drop": (
        '[drop.a]\nurl = "x"\nlayout = "folders"\nfolders = ["..", "b", "c", "d", "e"]',
        ["drop.a.folders: '..' cannot be the name of a folder on every server"],
    ),
    "a width that no file system has": (
        '[drop.a]\nurl = "x"\nwidth = 40',
        ["drop.a.width: a number of at most 18 is wanted"],
    ),
    "a signal that is not known": (
        '[drop.a]\nurl = "x"\nsignal = "ready"',
        ["drop.a.signal: 'manifest', 'checksum' or 'none' is wanted"],
    ),
    "a hash that is not known": (
        '[drop.a]\nurl = "x"\nhash = "md5"',
        ["drop.a.hash: 'md5' is not known; known are sha256, sha384, sha512, sha3-256, blake2b"],
    ),
    "a hash that sha256sum cannot write": (
        '[drop.a]\nurl = "x"\nsignal = "checksum"\nhash = "sha512"',
        ["drop.a.hash: signal = 'checksum' is the format of sha256sum, so hash must be 'sha256'"],
    ),
    "a trusted key that is none": (
        '[drop.a]\nurl = "x"\ntrusted_keys = ["abc="]',
        ["drop.a.trusted_keys: 'abc=' is no Ed25519 public key: its 32 bytes in base64 are wanted"],
    ),
    "signatures where nothing can be signed": (
        f'[drop.a]\nurl = "x"\nsignal = "none"\nsigning_key_file = "k"\ntrusted_keys = ["{"A" * 43}="]',
        [
            "drop.a.trusted_keys: only a manifest can be signed, and this drop has signal = 'none'",
            "drop.a.signing_key_file: only a manifest can be signed, and this drop has signal = 'none'",
        ],
    ),
    "a group that is one text": (
        '[drop.a]\nurl = "x"\ngroups = "orders_"',
        ['drop.a.groups: a list is wanted, such as ["..."]'],
    ),
    "a group outside the grammar": (
        '[drop.a]\nurl = "x"\ngroups = ["orders1"]',
        ["drop.a.groups: group prefix 'orders1' does not fit: letters, digits, '.', '_', '-', beginning with a letter or "
         "digit, not ending in a digit, and not beginning with one capital letter and '_'; for example 'orders_'"],
    ),
    "two groups that differ by case": (
        '[drop.a]\nurl = "x"\ngroups = ["orders_", "Orders_"]',
        ["drop.a.groups: groups 'orders_' and 'Orders_' differ only by case, and SMB takes them for one; rename one"],
    ),
    "a group twice": ('[drop.a]\nurl = "x"\ngroups = ["orders_", "orders_"]', ["drop.a.groups: 'orders_' stands there twice"]),
    "a drop whose name is a path": (
        '[drop."./a"]\nurl = "x"',
        ["drop: './a' cannot be a name; letters and digits can, with '_', '-' and '.' between them"],
    ),
    "a route that goes nowhere": (
        '[drop.a]\nurl = "x"\n[[route]]\nfrom = "a"\nto = "b"\ngroups = ["x_"]',
        ["route.0.to: there is no [drop.b]; there are a"],
    ),
    "a route to itself": (
        '[drop.a]\nurl = "x"\n[[route]]\nfrom = "a"\nto = "a"\ngroups = ["x_"]',
        ["route.0.to: from and to are the same drop"],
    ),
    "a route to itself by another name": (
        '[drop.a]\nurl = "sftp://me@h/x"\n[drop.b]\nurl = "sftp://you@H/x/"\n[[route]]\nfrom = "a"\nto = "b"\ngroups = ["x_"]',
        ["route.0.to: [drop.b] is the same directory as [drop.a]"],
    ),
    "a route without groups": (
        '[drop.a]\nurl = "x"\n[drop.b]\nurl = "y"\n[[route]]\nfrom = "a"\nto = "b"',
        ["route.0.groups: say which groups, here or in [drop.a]"],
    ),
    "a route with half an end": (
        '[drop.a]\nurl = "x"\n[[route]]\nfrom = "a"\ngroups = ["x_"]',
        ["route.0.to: this key is missing"],
    ),
    "strict order by many": (
        ROUTE + '\ngroups = ["x_"]\nordering = "strict"\nworkers = 2',
        ["route.0.workers: ordering = 'strict' takes one item at a time, so workers must be 1"],
    ),
    "no worker at all": (
        ROUTE + '\ngroups = ["x_"]\nworkers = 0',
        ["route.0.workers: a number of at least 1 is wanted"],
    ),
    "an order that is not known": (
        ROUTE + '\ngroups = ["x_"]\nordering = "lifo"',
        ["route.0.ordering: 'shuffle', 'fifo' or 'strict' is wanted"],
    ),
    "a group of a route outside the grammar": (
        '[drop.a]\nurl = "x"\nwidth = 3\n[drop.b]\nurl = "y"\n[[route]]\nfrom = "a"\nto = "b"\ngroups = ["x_", "a123.b"]',
        ["route.0.groups: group prefix 'a123.b' holds a run of 3 digits that reads like a sequence number"],
    ),
    "a journal in a database that is none": (
        '[ledger]\nurl = "journal:///var/lib/dropgate/ledger"\n[journal]\ndatabase = true',
        ["journal.database: needs an sqlite: or postgresql: ledger, and [ledger] url names another kind"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG.keys())
def test_a_fault_is_told_with_its_key(tmp_path: Path, text: str, expected: list[str]) -> None:
    told = faults(tmp_path, text)
    assert told == expected
    assert not any("se/cret" in line or "12345" in line for line in told)


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    text = """
        [endpoint.bank]
        url = "sftp://u:pw@h/x"
        passwrod = "geheim"
        host_key = "x"
        [drop.in]
        endpoint = "bakn"
        width = 0
        hash = "md5"
        signal = "checksum"
        groups = ["a1"]
        [drop.out]
        [[route]]
        from = "in"
        to = "nowhere"
        ordering = "strict"
        workers = 3
        poll = -1
    """
    told = faults(tmp_path, text)
    assert [line.split(":")[0] for line in told] == [
        "endpoint.bank.host_key",
        "endpoint.bank.passwrod",
        "drop.in.width",
        "drop.in.hash",
        "drop.out",
        "route.0.poll",
        "route.0.workers",
        "drop.in.endpoint",
        "route.0.to",
    ]
    assert "geheim" not in "".join(told)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x =", "is not TOML: line 1: the value that belongs here is not there"),
        (
            b"[drop.a]\n[drop.a]\n",
            "is not TOML: line 2, column 8: this table is in the file already, or a key of its name",
        ),
        (b"x = '\xff'", "is not TOML: line 1: byte 0xff is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_file_that_is_not_toml(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "dropgate.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=re.escape(f"{path} {message}")):
        load(path)


def test_a_byte_order_mark_is_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "dropgate.toml"
    path.write_bytes(b"\xef\xbb\xbf[drop.a]\nurl = 'x'\n")
    assert list(load(path).drop) == ["a"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is a folder, not a configuration file"):
        load(tmp_path)


def test_which_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, users, here = tmp_path / "named.toml", tmp_path / "home/.config/dropgate/dropgate.toml", Path("dropgate.toml")
    users.parent.mkdir(parents=True)
    for path in (named, users, here):
        path.touch()
    assert find_file(named) == named
    monkeypatch.setenv("DROPGATE_CONFIG", str(named))
    assert find_file(None) == named
    assert find_file(here) == here, "what is said in the command comes first"
    monkeypatch.delenv("DROPGATE_CONFIG")
    assert find_file(None) == here
    here.unlink()
    assert find_file(None) == users
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "elsewhere"))
    assert find_file(None) in (None, Path("/etc/dropgate/dropgate.toml"))
    monkeypatch.setenv("DROPGATE_CONFIG", str(tmp_path / "nope.toml"))
    with pytest.raises(ConfigurationError, match=r"there is no configuration file .*nope\.toml"):
        find_file(None)


class TestFilesBesideIt:
    def test_a_password_file_that_is_not_there(self, tmp_path: Path) -> None:
        settings = load(written(tmp_path, GOOD.replace("[drop.in]", 'password_file = "nope"\n[drop.in]')))
        with pytest.raises(ConfigurationError) as caught:
            settings.open_drop("in")
        assert str(caught.value) == f"endpoint.bank.password_file: {tmp_path}/nope cannot be read: No such file or directory"

    def test_a_password_file_that_is_no_text_is_not_shown(self, tmp_path: Path) -> None:
        (tmp_path / "pw").write_bytes(b"geheim\xff")
        settings = load(written(tmp_path, GOOD.replace("[drop.in]", 'password_file = "pw"\n[drop.in]')))
        with pytest.raises(ConfigurationError) as caught:
            settings.open_drop("in")
        assert str(caught.value) == f"endpoint.bank.password_file: {tmp_path}/pw is not UTF-8 text"
        assert caught.value.__cause__ is None, "a cause would carry the bytes"

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, "cannot be read: No such file or directory"),
            (b"geheim", "is no unencrypted private key in PEM"),
            (pem(generate_private_key(SECP256R1())), "is not Ed25519; make one: openssl genpkey -algorithm ed25519"),
        ],
    )
    def test_a_signing_key_that_is_none(self, tmp_path: Path, content: bytes | None, message: str) -> None:
        if content is not None:
            (tmp_path / "key").write_bytes(content)
        settings = load(written(tmp_path, '[drop.a]\nurl = "x"\nsigning_key_file = "key"'))
        with pytest.raises(ConfigurationError, match=message) as caught:
            settings.open_drop("a")
        assert "geheim" not in str(caught.value)


def test_no_secret_is_in_a_repr(tmp_path: Path) -> None:
    text = """
        [endpoint.a]
        url = "sftp://u:one-secret@h/x"
        key_passphrase = "two-secret"
        [endpoint.b]
        url = "smb://u@h/x"
        password = "three-secret"
        [drop.a]
        endpoint = "a"
        [drop.b]
        endpoint = "b"
        [drop.c]
        url = "sftp://u:four-secret@h/x"
    """
    settings = load(written(tmp_path, text))
    drops = [settings.open_drop(name) for name in settings.drop]
    assert "secret" not in repr(settings) + repr(drops) + "".join(map(str, drops))
