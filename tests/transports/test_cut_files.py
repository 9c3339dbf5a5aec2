"""What a sink says to be acknowledged is there, whatever happened to the connection; on real servers, cut by a proxy."""

from collections.abc import Callable
from pathlib import Path

import pytest

from testenv.proxy import Proxy
from testenv.servers import SftpServer, SmbServer
from transports.base import CHUNK, MARK
from transports.connect import connect
from transports.contract.place import content, some_bytes
from transports.endpoint import Endpoint, Timeouts
from transports.errors import Busy, OutcomeUnknown, Unreachable

SIZE = 24 * 1024 * 1024
AWAY = (Unreachable, OutcomeUnknown)


@pytest.fixture(params=["sftp", "smb"])
def cut_off(
    request: pytest.FixtureRequest, proxy_factory: Callable[[str, int], Proxy]
) -> tuple[Proxy, Endpoint, Endpoint, Path]:
    """A proxy, the way through it to an empty folder, the way around it, and the folder as this machine sees it."""
    server: SftpServer | SmbServer = request.getfixturevalue(f"{request.param}_server")
    folder: str = request.getfixturevalue(f"{request.param}_dir")
    proxy = proxy_factory(server.host, server.port)
    by = {"port": proxy.port, "timeouts": Timeouts(5, 5)}
    if isinstance(server, SftpServer):
        through, around, seen = server.endpoint(folder, **by), server.endpoint(folder), server.local(folder)
    else:
        through, around = server.endpoint("data", folder, **by), server.endpoint("data", folder)
        seen = server.local("data", folder)
    assert seen is not None
    return proxy, through, around, seen


@pytest.mark.parametrize("harm", ["cut", "black_hole"])
def test_after_a_cut_the_acknowledged_bytes_are_there_and_the_file_is_gone_on_with(
    cut_off: tuple[Proxy, Endpoint, Endpoint, Path], harm: str
) -> None:
    proxy, through, around, seen = cut_off
    data = some_bytes(SIZE)
    with connect(through) as transport:
        sink = transport.create("x")

        def write() -> None:
            for at in range(0, SIZE, CHUNK):
                if at == SIZE // 2:
                    getattr(proxy, harm)()
                sink.write(data[at : at + CHUNK])
            sink.commit()

        with pytest.raises(AWAY):
            write()
        sink.leave()
        known = sink.acknowledged
    assert SIZE // 4 < known <= SIZE // 2, "what is known lags behind by a bounded amount"
    assert (seen / "x").read_bytes()[:known] == data[:known]
    proxy.heal()  # and with it the server learns that the old connection is gone
    with connect(around) as transport:
        for turn in range(100):
            try:
                sink = transport.resume("x", known, data[known - MARK : known])
            except Busy:
                assert turn < 99, "the dead session of ours is noticed some time"
                transport.wait_for_change("", 0.1)
            else:
                break
        with sink:
            sink.write(data[known:])
            sink.commit()
        assert content(transport, "x") == data
