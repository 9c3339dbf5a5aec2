"""Environment variables and secret files stand over the configuration file, literally and by the path of their key."""

import re
from pathlib import Path

import pytest

from gateway.settings import load
from protocol.rules import Signal
from tests.gateway.configurations import GOOD, faults, written

pytestmark = pytest.mark.usefixtures("no_settings_of_ours")


class TestEnvironment:
    """DROPGATE_<SECTION>__<NAME>__<KEY> stands over the file."""

    @pytest.mark.parametrize("password", ["12345", "true", "null", '"quoted"', '{"a": 1}', "a__b", "ü €", " "])
    def test_a_password_is_taken_literally(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str) -> None:
        monkeypatch.setenv("DROPGATE_ENDPOINT__BANK__PASSWORD", password)
        endpoint = load(written(tmp_path, GOOD)).open_drop("in").endpoint
        assert endpoint.password is not None
        assert endpoint.password.reveal() == password

    def test_it_stands_over_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DROPGATE_ENDPOINT__BANK__URL", "sftp://other.example/x")
        monkeypatch.setenv("DROPGATE_ENDPOINT__BANK__REPLY_TIMEOUT", "7")
        monkeypatch.setenv("DROPGATE_DROP__IN__GROUPS", "a_, b_")
        monkeypatch.setenv("DROPGATE_DROP__IN__SIGNAL", "none")
        drop = load(written(tmp_path, GOOD)).open_drop("in")
        assert str(drop) == "sftp://other.example/x/in"
        assert drop.endpoint.timeouts.reply == 7
        assert drop.groups == ("a_", "b_")
        assert drop.rules.signal is Signal.NONE

    @pytest.mark.parametrize("name", ["Bank", "the-bank", "the.bank"])
    def test_names_that_no_shell_can_export_are_found(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        variable = re.sub("[-.]", "_", name.upper())
        monkeypatch.setenv(f"DROPGATE_ENDPOINT__{variable}__PASSWORD", "pw")
        text = f'[endpoint."{name}"]\nurl = "sftp://h/x"\n[drop.in]\nendpoint = "{name}"'
        endpoint = load(written(tmp_path, text)).open_drop("in").endpoint
        assert endpoint.password is not None

    def test_a_name_that_may_mean_two_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DROPGATE_ENDPOINT__A_B__PASSWORD", "pw")
        text = '[endpoint.a-b]\nurl = "x"\n[endpoint.a_b]\nurl = "x"'
        assert faults(tmp_path, text) == ["ENDPOINT__A_B: is it a-b or a_b? Rename one of them"]

    def test_a_wrong_key_is_told_as_in_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DROPGATE_ENDPOINT__BANK__PASWORD", "geheim")
        assert faults(tmp_path, GOOD) == [
            "endpoint.bank.pasword: this key is not known; is `password` meant? (the environment sets it)"
        ]

    def test_half_a_path_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DROPGATE_ENDPOINT__BANK", "geheim")
        assert faults(tmp_path, GOOD) == ["ENDPOINT__BANK: a key is named by its path, such as ENDPOINT__NAME__KEY"]

    @pytest.mark.parametrize(
        "name", ["DROPGATE_FILE", "DROPGATE_KEY", "DROPGATE_META_DROP", "DROPGATE_FOLDER", "DROPGATE_DROP"]
    )
    def test_what_an_exec_command_is_told_is_no_setting(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv(name, "/etc")
        assert str(load(written(tmp_path, '[drop.in]\nurl = "x"')).open_drop("in")) == f"file://{tmp_path}/x"

    def test_an_empty_variable_sets_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DROPGATE_ENDPOINT__BANK__PASSWORD", "")
        assert load(written(tmp_path, GOOD)).open_drop("in").endpoint.password is None

    def test_it_is_enough_without_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DROPGATE_DROP__BANK__URL", "in")
        assert str(load(None).open_drop("bank")) == f"file://{tmp_path}/work/in"


class TestSecrets:
    """Files of DROPGATE_SECRETS_DIR hold one value each."""

    @pytest.fixture
    def secrets(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "secrets"
        folder.mkdir()
        monkeypatch.setenv("DROPGATE_SECRETS_DIR", str(folder))
        return folder

    def test_a_secret_stands_over_the_file_and_under_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secrets: Path
    ) -> None:
        (secrets / "endpoint__bank__password").write_text("from a file \n")
        (secrets / "..data").mkdir()
        (secrets / "another-service").write_text("none of ours")
        path = written(tmp_path, GOOD.replace("[drop.in]", 'password = "from the configuration"\n[drop.in]'))
        endpoint = load(path).open_drop("in").endpoint
        assert endpoint.password is not None
        assert endpoint.password.reveal() == "from a file "
        monkeypatch.setenv("DROPGATE_ENDPOINT__BANK__PASSWORD", "from the environment")
        endpoint = load(path).open_drop("in").endpoint
        assert endpoint.password is not None
        assert endpoint.password.reveal() == "from the environment"

    def test_a_directory_that_is_not_there(self, tmp_path: Path, secrets: Path) -> None:
        secrets.rmdir()
        assert faults(tmp_path, GOOD) == [f"DROPGATE_SECRETS_DIR: {secrets}: No such file or directory"]

    def test_a_secret_that_is_no_text(self, tmp_path: Path, secrets: Path) -> None:
        (secrets / "endpoint__bank__password").write_bytes(b"\xffgeheim")
        assert faults(tmp_path, GOOD) == [f"DROPGATE_SECRETS_DIR: a file in {secrets} is not UTF-8 text"]
