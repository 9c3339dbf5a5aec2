"""The proxy's promises, with real sockets on both of its sides."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from testenv.proxy import Proxy

SOON = 5.0  # seconds; far more than anything here takes


class EchoServer:
    """Sends back what it receives, and remembers it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.received = bytearray()
        self.got = threading.Condition()
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed: the test is over
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._echo, args=(connection,)))
            self._threads[-1].start()

    def _echo(self, connection: socket.socket) -> None:
        with connection:
            while True:
                try:
                    data = connection.recv(65536)
                except OSError:
                    return  # reset by the proxy
                if not data:
                    return
                with self.got:
                    self.received += data
                    self.got.notify_all()
                try:
                    connection.sendall(data)
                except OSError:
                    return

    def wait_for(self, data: bytes) -> bool:
        """Whether all of `data` has come, by now or soon."""
        with self.got:
            return self.got.wait_for(lambda: bytes(self.received) == data, timeout=SOON)

    def close(self) -> None:
        # Closing alone does not wake a thread that waits in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):  # its thread has closed it, or the proxy has reset it
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=SOON)


@pytest.fixture
def server() -> Iterator[EchoServer]:
    with closing(EchoServer()) as echo:
        yield echo


@pytest.fixture
def proxy(server: EchoServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", server.port) as made:
        yield made


@pytest.fixture
def connect(proxy: Proxy) -> Iterator[Callable[[], socket.socket]]:
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        opened.append(socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def assert_silent(connection: socket.socket) -> None:
    connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(SOON)


def assert_reset(connection: socket.socket) -> None:
    with pytest.raises(ConnectionResetError):
        connection.recv(1)


def test_a_healthy_proxy_passes_every_byte_in_order(connect: Callable[[], socket.socket]) -> None:
    connection = connect()
    data = bytes(range(256)) * 20_000
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    assert receive(connection, len(data)) == data
    sender.join(timeout=SOON)


def test_the_end_of_one_direction_is_passed_on_and_the_other_still_flows(connect: Callable[[], socket.socket]) -> None:
    connection = connect()
    connection.sendall(b"last words")
    connection.shutdown(socket.SHUT_WR)
    assert receive(connection, 100) == b"last words"


def test_a_slow_reader_gets_everything_although_the_server_has_long_closed() -> None:
    data = bytes(range(256)) * 4000

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        with (
            Proxy("127.0.0.1", listener.getsockname()[1]) as proxy,
            socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON) as connection,
        ):
            connection.shutdown(socket.SHUT_WR)
            server.join(timeout=SOON)
            time.sleep(0.1)
            assert receive(connection, len(data) + 1) == data


def test_delay_counts_in_both_directions_and_does_not_lower_the_throughput(
    proxy: Proxy, connect: Callable[[], socket.socket]
) -> None:
    connection = connect()
    proxy.delay(0.1)
    start = time.monotonic()
    for number in range(10):  # ten requests on their way at once
        connection.sendall(bytes([number]) * 1000)
        time.sleep(0.01)
    assert len(receive(connection, 10_000)) == 10_000
    assert 0.2 <= time.monotonic() - start < 1.9  # one after the other they would take two seconds
    proxy.heal()
    start = time.monotonic()
    connection.sendall(b"x")
    assert receive(connection, 1) == b"x"
    assert time.monotonic() - start < 0.2


def test_cut_resets_what_is_open_and_serves_what_comes_after(proxy: Proxy, connect: Callable[[], socket.socket]) -> None:
    first, second = connect(), connect()
    for connection in (first, second):
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
    proxy.cut()
    assert_reset(first)
    assert_reset(second)
    third = connect()
    third.sendall(b"again")
    assert receive(third, 5) == b"again"
    assert proxy.accepted == 3


def test_a_black_hole_takes_everything_and_gives_nothing(
    proxy: Proxy, server: EchoServer, connect: Callable[[], socket.socket]
) -> None:
    old = connect()
    old.sendall(b"before")
    assert receive(old, 6) == b"before"
    proxy.black_hole()
    new = connect()
    for connection in (old, new):
        connection.sendall(b"nothing of this arrives" * 1000)
        assert_silent(connection)
    assert server.wait_for(b"before")


def test_healing_resets_the_connections_that_have_lost_bytes_and_no_other(
    proxy: Proxy, connect: Callable[[], socket.socket]
) -> None:
    idle, busy = connect(), connect()
    for connection in (idle, busy):
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
    proxy.black_hole()
    waiting = connect()  # for a server that speaks first
    busy.sendall(b"lost")
    assert_silent(busy)
    assert_silent(waiting)
    proxy.heal()
    assert_reset(busy)
    assert_reset(waiting)
    idle.sendall(b"kept")
    assert receive(idle, 4) == b"kept"


def test_a_cut_reply_leaves_the_request_done_and_the_client_without_an_answer(
    proxy: Proxy, server: EchoServer, connect: Callable[[], socket.socket]
) -> None:
    connection = connect()
    connection.sendall(b"first;")
    assert receive(connection, 6) == b"first;"
    proxy.cut_reply_after(1)
    connection.sendall(b"second;")
    assert_reset(connection)
    assert server.wait_for(b"first;second;")
    assert proxy.replies_cut == 1


def test_the_cut_waits_for_as_many_bytes_as_it_was_told(proxy: Proxy, connect: Callable[[], socket.socket]) -> None:
    connection = connect()
    proxy.cut_reply_after(10)
    connection.sendall(b"9 bytes..")
    assert receive(connection, 9) == b"9 bytes.."
    connection.sendall(b"!")
    assert_reset(connection)


def test_the_cut_can_wait_for_a_certain_request_and_strikes_once(proxy: Proxy, connect: Callable[[], socket.socket]) -> None:
    connection = connect()
    proxy.cut_reply_after(lambda data: b"rename" in data)
    connection.sendall(b"stat")
    assert receive(connection, 4) == b"stat"
    connection.sendall(b"rename")
    assert_reset(connection)
    again = connect()
    again.sendall(b"rename")
    assert receive(again, 6) == b"rename"
    assert proxy.replies_cut == 1


def test_a_server_that_refuses_is_seen_as_a_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        unused: int = listener.getsockname()[1]
    # Refused at once, or at the first read: the reset may overtake the connecting.
    with (
        Proxy("127.0.0.1", unused) as proxy,
        pytest.raises(ConnectionResetError),
        socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON) as connection,
    ):
        connection.recv(1)


def test_closing_resets_everything_and_frees_the_port(server: EchoServer) -> None:
    proxy = Proxy("127.0.0.1", server.port)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON) as connection:
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
        proxy.close()
        proxy.close()
        assert_reset(connection)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON)


def test_the_factory_closes_what_a_test_leaves_open(proxy_factory: Callable[[str, int], Proxy], server: EchoServer) -> None:
    proxy = proxy_factory("127.0.0.1", server.port)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=SOON) as connection:
        connection.sendall(b"x")
        assert receive(connection, 1) == b"x"
