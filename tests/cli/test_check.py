"""`dropgate check` tells everything that is wrong with a configuration, and with --connect with its places."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from testenv.postgres import Postgres
from testenv.servers import SftpServer, SmbServer
from testenv.spec import free_port
from tests.cli.golden_files import BAD, said_of
from tests.cli.tools import WITHIN, Ended, Place
from tests.e2e.commands import DROPGATE

GOOD = '[drop.out]\nurl = "out"\ngroups = ["orders_"]\n[drop.in]\nurl = "in"\n[[route]]\nfrom = "out"\nto = "in"\n'


@pytest.mark.parametrize("bad", BAD, ids=lambda path: path.stem)
def test_each_wrong_configuration_is_told_as_it_was_agreed(bad: Path, place: Place) -> None:
    told = said_of(bad, place)
    assert told == bad.with_suffix(".txt").read_text(encoding="utf-8")
    assert "geheim" not in told, "a secret"
    assert "Traceback" not in told


def test_there_are_twenty_kinds_and_more() -> None:
    assert len(BAD) >= 20


def test_a_right_one_is_right_and_without_doubts(place: Place) -> None:
    ended = place.called("check", place.write("dropgate.toml", GOOD))
    assert ended.out == "dropgate.toml is right: 0 endpoints, 2 drops, 1 route\n"
    assert place.called("check").out == ended.out, "it is found where every command finds it"


def test_no_configuration_at_all(place: Place) -> None:
    ended = place.call("check")
    assert (ended.code, ended.out) == (2, "")
    assert "there is no configuration file; name one, or make one: dropgate init" in ended.err


class TestWhatCannotBeRead:
    """Whatever stands there in place of a configuration, it is one clear line and no trace."""

    def refused(self, ended: Ended, text: str) -> None:
        assert ended.code == 2
        assert text in ended.out + ended.err
        assert "Traceback" not in ended.out + ended.err

    def test_a_folder(self, place: Place) -> None:
        place.drop("folder")
        self.refused(place.call("check", "folder"), "folder is a folder, not a configuration file")

    def test_a_file_that_is_not_there(self, place: Place) -> None:
        self.refused(place.call("check", "nope.toml"), "there is no configuration file nope.toml")

    def test_a_name_that_no_file_can_have(self, place: Place) -> None:
        self.refused(place.call("check", "x" * 5000), "cannot be read: File name too long")

    def test_a_program(self, place: Place) -> None:
        place.write("program", Path("/bin/sh").read_bytes())
        self.refused(place.call("check", "program"), "line 1: there is a NUL byte; this is a binary file")

    def test_fifty_megabytes(self, place: Place) -> None:
        with (place.folder / "large.toml").open("wb") as file:
            file.truncate(50_000_000)
        self.refused(place.call("check", "large.toml"), "large.toml has more than 1024 KiB; that is no configuration file")

    def test_a_megabyte_of_one_statement_is_refused_soon(self, place: Place) -> None:
        place.write("long.toml", "x = [\n" + "1,\n" * 300_000)
        self.refused(place.call("check", "long.toml"), "line 1: the value that belongs here is not there, or has no end")

    def test_a_file_that_this_account_may_not_read(self, place: Place) -> None:
        place.write("closed.toml", GOOD)
        (place.folder / "closed.toml").chmod(0)
        # Root reads everything, unless it has given that up.
        plain = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"] if os.getuid() == 0 else []
        done = subprocess.run(
            [*plain, DROPGATE, "check", "closed.toml"],
            cwd=place.folder,
            env=place.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
        self.refused(Ended(done.returncode, done.stdout, done.stderr), "closed.toml cannot be read: Permission denied")

    def test_a_name_of_the_environment_that_means_nothing(self, place: Place) -> None:
        place.write("dropgate.toml", GOOD)
        ended = place.run("check", environment={"DROPGATE_DROP__OUT__WIDTH": "ten", "DROPGATE_DROP__OUT__GRUOPS": "x"})
        assert ended.code == 2
        assert ended.out.splitlines()[:2] == [
            "error    drop.out.width: a whole number is wanted (the environment sets it)",
            "error    drop.out.gruops: this key is not known; is `groups` meant? (the environment sets it)",
        ], "and no line of the file, which is right"


@pytest.mark.parametrize(
    ("module", "text", "told"),
    [
        ("starlette", "[web]\n", "line 9: web: this needs the extra: pip install 'dropgate[web]'"),
        (
            "opentelemetry",
            '[tracing]\nendpoint = "http://127.0.0.1:4318"\n',
            "tracing: this needs the extra: pip install 'dropgate[otel]'",
        ),
        (
            "psycopg",
            '[ledger]\nurl = "postgresql://h/d"\n',
            "ledger.url: this needs the extra: pip install 'dropgate[postgresql]'",
        ),
    ],
)
def test_a_library_that_is_not_installed_is_told(place: Place, module: str, text: str, told: str) -> None:
    place.write("dropgate.toml", GOOD + text)
    code = f"import sys; sys.modules[{module!r}] = None; from gateway.cli.main import main; sys.argv[1:] = ['check']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=place.folder,
        env=place.environment(),
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert told in done.stdout


class TestDoubts:
    """What is allowed and hardly meant is told, and is no failure."""

    @pytest.mark.parametrize(
        ("text", "doubt"),
        [
            ('[drop.out]\nurl = "out"\n', "there is no [[route]]: `dropgate run` has nothing to do"),
            (GOOD + '[drop.spare]\nurl = "spare"\n', "line 9: drop.spare: no route uses it"),
            (GOOD + '[endpoint.spare]\nurl = "sftp://me@h/x"\n', "line 9: endpoint.spare: no drop uses it"),
            (GOOD + '[ledger]\nurl = "memory:"\n', "line 10: ledger.url: memory: is forgotten at each stop"),
            (
                GOOD.replace('url = "in"', 'url = "in"\ngroups = ["order_"]'),
                "line 9: route.0.to: it brings orders_ to [drop.in], whose groups are order_",
            ),
            (
                GOOD + 'groups = ["invoices_"]\n',
                "line 9: route.0.groups: it takes invoices_ from [drop.out], whose groups are orders_",
            ),
        ],
    )
    def test_it_is_told(self, place: Place, text: str, doubt: str) -> None:
        ended = place.called("check", place.write("dropgate.toml", text))
        assert f"warning  {doubt}" in ended.out
        assert ", 1 warning\n" in ended.out

    def test_secrets_that_others_can_read(self, place: Place) -> None:
        text = (
            '[endpoint.bank]\nurl = "sftp://me@h/x"\npassword = "geheim"\n[endpoint.nas]\nurl = "smb://me@h/x"\n'
            'password_file = "secret"\n[drop.a]\nendpoint = "bank"\n[drop.b]\nendpoint = "nas"\n'
            '[[route]]\nfrom = "a"\nto = "b"\ngroups = ["orders_"]\n'
        )
        place.write("dropgate.toml", text)
        place.write("secret", "geheim")
        for name in ("dropgate.toml", "secret"):
            (place.folder / name).chmod(0o644)
        told = place.called("check").out
        assert "warning  line 3: endpoint.bank.password: other accounts can read this file" in told
        assert (
            f"warning  line 6: endpoint.nas.password_file: other accounts can read this secret: chmod 600 {place.folder}"
            in told
        )
        assert "geheim" not in told
        for name in ("dropgate.toml", "secret"):
            (place.folder / name).chmod(0o600)
        assert "warning" not in place.called("check").out


class TestJson:
    """One object a line, for programs."""

    def test_faults(self, place: Place) -> None:
        place.write("bad.toml", GOOD + "colour = 1\n")
        place.write("worse.toml", 'a = "b')
        assert place.call("check", "--json", "bad.toml").objects == [
            {"level": "error", "key": "route.0.colour", "line": 9, "text": "this key is not known"}
        ]
        (worse,) = place.call("check", "--json", "worse.toml").objects
        assert (worse["level"], worse["line"], worse["shown"]) == ("error", 1, 'a = "b')


class TestConnect:
    """--connect logs in to every endpoint and tries every drop, and leaves nothing there."""

    @pytest.fixture
    def configuration(
        self, place: Place, sftp_server: SftpServer, sftp_dir: str, smb_server: SmbServer, smb_dir: str
    ) -> dict[str, str]:
        """Two servers and a local folder that all work, as parts of a file."""
        place.write("sftp-secret", sftp_server.password)
        place.write("smb-secret", smb_server.password)
        for name in ("sftp-secret", "smb-secret"):
            (place.folder / name).chmod(0o600)
        place.drop("out")
        sftp = f"sftp://{sftp_server.user}@{sftp_server.host}:{sftp_server.port}{sftp_server.path(sftp_dir)}"
        smb = f"smb://{smb_server.domain};{smb_server.user}@{smb_server.host}:{smb_server.port}/{smb_server.data}/{smb_dir}"
        return {
            "sftp": f'[endpoint.bank]\nurl = "{sftp}"\npassword_file = "sftp-secret"\nhost_key = "{sftp_server.host_key}"\n'
            '[drop.bank]\nendpoint = "bank"\n',
            "smb": f'[endpoint.nas]\nurl = "{smb}"\npassword_file = "smb-secret"\n[drop.nas]\n'
            'endpoint = "nas"\nlayout = "folders"\n',
            "local": '[drop.out]\nurl = "out"\ngroups = ["orders_"]\n[[route]]\nfrom = "out"\nto = ["bank", "nas"]\n',
        }

    def test_all_is_well(
        self,
        place: Place,
        configuration: dict[str, str],
        sftp_server: SftpServer,
        sftp_dir: str,
        smb_server: SmbServer,
        smb_dir: str,
    ) -> None:
        place.write("dropgate.toml", "".join(configuration.values()))
        ended = place.called("check", "--connect")
        lines = ended.out.splitlines()
        assert [line.split()[:2] for line in lines if line.startswith("ok")] == [
            ["ok", f"drop.{n}"] for n in ("bank", "nas", "out")
        ]
        assert "the first use makes temp, incoming, processing, archive, error" in ended.out
        for step in ("create", "publish", "claim", "replace", "durable"):
            assert sum(line.split()[0] == step for line in lines) == 3, "each place says how it knows"
        assert sftp_server.password not in ended.out
        assert lines[-1] == "dropgate.toml is right: 2 endpoints, 3 drops, 1 route"
        sftp_local, smb_local = sftp_server.local(sftp_dir), smb_server.local(path=smb_dir)
        assert sftp_local is not None
        assert smb_local is not None
        left = [list(folder.iterdir()) for folder in (place.folder / "out", sftp_local, smb_local)]
        assert left == [[], [], []], "nothing is left, not even a folder"

        found = {one["key"]: one for one in place.called("check", "--connect", "--json").objects}
        assert found["drop.bank"]["guarantees"]["claim"]["guarantee"] == "atomic"
        assert abs(found["drop.nas"]["clock_offset"]) < 60
        assert found["drop.out"]["free_space"] > 0

    def test_what_fails_is_told_and_the_others_are_tried(self, place: Place, configuration: dict[str, str]) -> None:
        with socket.socket() as silent, socket.socket() as closed:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            closed.bind(("127.0.0.1", 0))
            ports = (silent.getsockname()[1], closed.getsockname()[1])
            place.write("sftp-secret", "geheim")
            more = (
                f'[drop.away]\nurl = "sftp://me@127.0.0.1:{ports[1]}/x"\n'
                f'[drop.silent]\nurl = "sftp://me@127.0.0.1:{ports[0]}/x"\n'
                '[drop.nowhere]\nurl = "nowhere"\n[endpoint.unused]\nurl = "out"\n'
            )
            place.write("dropgate.toml", "".join(configuration.values()) + more)
            ended = place.run("check", "--connect", "--within", "12")
        assert ended.code == 3
        told = {line.split()[1]: line for line in ended.out.splitlines() if line.startswith(("ok", "failed"))}
        assert told["drop.bank"].startswith("failed")
        assert "does not let" in told["drop.bank"], "a wrong password"
        assert "Connection refused; is the server running" in told["drop.away"]
        assert "no answer within 12 s" in told["drop.silent"]
        assert "make the folder" in told["drop.nowhere"]
        assert told["drop.nas"].startswith("ok")
        assert told["drop.out"].startswith("ok")
        assert told["endpoint.unused"].startswith("ok")
        assert "4 of 7 places cannot be used" in ended.out.splitlines()[-1]
        assert "geheim" not in ended.out + ended.err
        assert "Traceback" not in ended.err

    def test_the_ledgers_server_is_logged_in_to_and_nothing_is_made_there(self, place: Place, postgres: Postgres) -> None:
        place.drop("out")
        place.drop("in")
        url = postgres.empty_database()
        place.write("dropgate.toml", GOOD)
        ended = place.run("check", "--connect", "--json", environment={"DROPGATE_LEDGER__URL": url})
        assert ended.code == 0
        (ledger,) = (one for one in ended.objects if one["key"] == "ledger")
        assert ledger["level"] == "ok"
        assert postgres.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", url.rpartition("/")[2]) == "0"

        wrong = url.replace(f":{postgres.port}/", f":{free_port()}/")
        ended = place.run("check", "--connect", environment={"DROPGATE_LEDGER__URL": wrong})
        assert ended.code == 3
        (told,) = (line for line in ended.out.splitlines() if line.startswith("failed"))
        assert "refused" in told
        assert "see whether the server runs" in told
        assert quote(postgres.password, safe="") not in told
        assert postgres.password not in told

    def test_what_an_alarm_would_be_raised_for_is_told(self, place: Place) -> None:
        place.drop("out")
        place.drop("in")
        place.write("dropgate.toml", GOOD + "[alarms]\nfree_mib = 1000000000000\n")
        ended = place.called("check", "--connect", "--json")
        warned = [one["key"] for one in ended.objects if one["level"] == "warning"]
        assert warned == ["drop.out", "drop.in"]
        assert json.dumps("MiB are free")[1:-1] in ended.out
