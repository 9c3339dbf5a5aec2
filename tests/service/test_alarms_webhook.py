"""Telling by HTTP: a real receiver that fails, hangs, redirects and comes back."""

import datetime as dt
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.service.alarms.channel import NotTold
from gateway.service.alarms.event import Change, Event
from gateway.service.alarms.webhook import Webhook, check_url, key_of, signature
from tests.service.alarm_tools import Receiver, alarm, receiver
from transports.secret import Secret

DOCS = Path(__file__).parents[2] / "docs" / "alarms.md"
EVENT = Event("0123456789abcdef", Change.FIRED, "2026-11-30T12:00:00.000000Z", alarm(title="Überfällig: 1 Datei"))
GO_ON = threading.Event()


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as told:
        yield told


def webhook(url: str, **more: object) -> Webhook:
    given: dict[str, object] = {"instance": "shop 1", "utc": Clock().utc, "deadline": 5.0}
    return Webhook(url, **given | more)  # type: ignore[arg-type]  # each test gives what it is about


def test_an_event_is_a_cloud_event_in_structured_mode(there: Receiver) -> None:
    webhook(there.url)(EVENT, GO_ON)
    post = there.posts[0]
    assert post.headers["content-type"].startswith("application/cloudevents+json")
    assert post.event == {
        "specversion": "1.0",
        "id": "0123456789abcdef",
        "source": "/dropgate/shop%201",
        "type": "dropgate.alarm.fired",
        "subject": "errors:outbox:orders_",
        "time": "2026-11-30T12:00:00.000000Z",
        "datacontenttype": "application/json",
        "data": {
            "id": "errors:outbox:orders_",
            "kind": "errors",
            "about": "outbox/orders_",
            "title": "Überfällig: 1 Datei",
            "text": "Mend it.",
            "since": "2026-11-30T12:00:00Z",
            "severity": "warning",
        },
    }


@pytest.mark.parametrize(
    ("secret", "key"), [("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None), ("a word of mine", b"a word of mine")]
)
def test_it_is_signed_over_its_id_the_time_of_the_try_and_its_body(there: Receiver, secret: str, key: bytes | None) -> None:
    made = key_of(Secret(secret))
    assert len(made) == 24 if key is None else made == key
    before = int(time.time())
    webhook(there.url, key=made)(EVENT, GO_ON)
    post = there.posts[0]
    assert post.is_signed_with(made)
    assert not post.is_signed_with(b"another")
    assert post.headers["webhook-id"] == EVENT.id
    assert before <= int(post.headers["webhook-timestamp"]) <= int(time.time())


def test_the_signature_is_that_of_the_convention() -> None:
    """The example of the Standard Webhooks reference libraries."""
    key = key_of(Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
    body = b'{"test": 2432232314}'
    made = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_lines_of_the_documentation_verify_it(there: Receiver) -> None:
    source = next(code for code in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL) if "def verify" in code)
    names: dict[str, object] = {}
    exec(compile(source, str(DOCS), "exec"), names)  # noqa: S102 - what people will copy has to work
    verify = names["verify"]
    assert callable(verify)
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    webhook(there.url, key=key_of(Secret(secret)))(EVENT, GO_ON)
    post = there.posts[0]
    assert verify(secret, post.headers, post.body)
    assert not verify(secret, post.headers, post.body + b" ")
    assert not verify("whsec_AAAA", post.headers, post.body)
    assert not verify(secret, {**post.headers, "webhook-timestamp": "1614265330"}, post.body)


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_every_answer_of_success_is_told(there: Receiver, status: int) -> None:
    there.answers = [status]
    webhook(there.url)(EVENT, GO_ON)
    assert len(there.posts) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 410, 415, 429, 500, 502, 503])
def test_every_other_answer_is_not(there: Receiver, status: int) -> None:
    there.answers = [status]
    with pytest.raises(NotTold, match=f"answered {status}"):
        webhook(there.url)(EVENT, GO_ON)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(there: Receiver, status: int) -> None:
    with receiver() as elsewhere:
        there.answers, there.headers = [status], {"location": elsewhere.url}
        with pytest.raises(NotTold, match="redirects are not followed"):
            webhook(there.url)(EVENT, GO_ON)
        assert elsewhere.posts == []


@pytest.mark.parametrize(
    ("status", "asked", "pause"),
    [
        (429, "120", 120.0),
        (503, "7", 7.0),
        (503, "Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        (503, "soon", None),
        (500, "120", None),
    ],
)
def test_a_receiver_may_say_when_to_come_again(there: Receiver, status: int, asked: str, pause: float | None) -> None:
    there.answers, there.headers = [status], {"retry-after": asked}
    with pytest.raises(NotTold) as error:
        webhook(there.url)(EVENT, GO_ON)
    assert error.value.pause == pause


def _says_nothing(connection: socket.socket) -> None:
    connection.settimeout(20)
    connection.recv(1)


def _drips(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
    for _ in range(200):
        time.sleep(0.1)
        connection.sendall(b"y")


def _speaks_something_else(connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example ESMTP\r\n")


def _hangs_up(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [_says_nothing, _drips, _speaks_something_else, _hangs_up], ids=lambda f: f.__name__)
def test_a_receiver_that_gives_no_answer_is_left_within_the_deadline(there: Receiver, answer: object) -> None:
    there.answers = [answer]  # type: ignore[list-item]  # one of the functions above
    with pytest.raises(NotTold, match="did not answer"):
        webhook(there.url, deadline=1.0)(EVENT, GO_ON)


def test_nobody_listens() -> None:
    with receiver() as gone:
        url = gone.url
    with pytest.raises(NotTold, match="Connection refused"):
        webhook(url)(EVENT, GO_ON)


def test_no_error_shows_what_may_be_secret(there: Receiver) -> None:
    url = there.url.replace("://", "://user:hunter2@").replace("/alarms", "/hook/s3cr3t?token=t0k3n")
    one = webhook(url, key=b"k3y")
    there.answers = [500]
    with pytest.raises(NotTold) as refused:
        one(EVENT, GO_ON)
    with receiver() as gone:
        dead = webhook(gone.url.replace("/alarms", "/s3cr3t"))
    with pytest.raises(NotTold) as failed:
        dead(EVENT, GO_ON)
    for text in (str(refused.value), str(failed.value), repr(one), repr(dead)):
        assert not [secret for secret in ("hunter2", "s3cr3t", "t0k3n", "k3y") if secret in text]


def test_a_login_of_the_url_is_sent_as_such(there: Receiver) -> None:
    webhook(there.url.replace("://", "://user:p%40ss@"))(EVENT, GO_ON)
    assert there.posts[0].headers["authorization"] == "Basic dXNlcjpwQHNz"


def test_a_query_is_part_of_the_address(there: Receiver) -> None:
    webhook(there.url + "?to=night%20shift")(EVENT, GO_ON)
    assert len(there.posts) == 1


# TLS.


def _certificate(folder: Path, name: str) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize(
    ("name", "is_trusted", "why"),
    [("localhost", True, None), ("localhost", False, "self.signed"), ("other.example", True, "mismatch")],
    ids=["right", "not trusted", "another name"],
)
def test_a_certificate_has_to_be_trusted_and_of_that_host(tmp_path: Path, name: str, is_trusted: bool, why: str | None) -> None:
    with receiver(tls=_certificate(tmp_path, name)) as there:
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem") if is_trusted else None)
        tell = webhook(there.url.replace("127.0.0.1", "localhost"), context=context)
        if why is None:
            tell(EVENT, GO_ON)
            assert len(there.posts) == 1
        else:
            with pytest.raises(NotTold, match=f"certificate is not accepted.*{why}"):
                tell(EVENT, GO_ON)
            assert there.posts == []


def test_https_goes_by_the_proxy_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver(tls=_certificate(tmp_path, "hooks.example")) as there, socket.create_server(("127.0.0.1", 0)) as proxy:
        asked: list[bytes] = []
        port = int(there.url.split(":")[2].partition("/")[0])
        thread = threading.Thread(target=_one_tunnel, args=(proxy, port, asked), daemon=True)
        thread.start()
        for variable in ("NO_PROXY", "no_proxy", "HTTPS_PROXY"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("https_proxy", f"http://me:pw@127.0.0.1:{proxy.getsockname()[1]}")
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        webhook("https://hooks.example/alarms", context=context)(EVENT, GO_ON)
        thread.join(10)
        assert asked[0].startswith(b"CONNECT hooks.example:443 HTTP/1.")
        assert b"bWU6cHc=" in asked[0]
        assert there.posts[0].event["id"] == EVENT.id


def _one_tunnel(proxy: socket.socket, port: int, asked: list[bytes]) -> None:
    client, _ = proxy.accept()
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(4096)
        asked.append(head)
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server)
        back.join(10)


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(4096):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


# What cannot be used.


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_%%%"])
def test_a_secret_that_cannot_be_used_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(ConfigurationError, match=r"alarms\.webhook_secret") as error:
        key_of(Secret(secret))
    assert "%%%" not in str(error.value)


@pytest.mark.parametrize("url", ["ftp://host/x", "https://", "host/x", "http://[::1"])
def test_what_is_no_url_to_post_to_is_refused(url: str) -> None:
    check_url("https://hooks.example/x")
    with pytest.raises(ConfigurationError, match=r"alarms\.webhook: this is no URL"):
        check_url(url)


def test_an_event_of_any_text_is_json() -> None:
    strange = Event("1", Change.CLEARED, EVENT.at, alarm(text='a "quote", a \udcff, a \0 and a \n'))
    assert json.loads(strange.as_json("x"))["data"]["text"] == 'a "quote", a ?, a \0 and a \n'
