"""A TCP proxy on 127.0.0.1 that behaves as bad networks do: slow, cut, silent, or cut between a request and its reply.

It moves bytes and understands none, so it serves encrypted protocols as well. It runs in a thread of its own; its methods may
be called from any other, and have taken effect when they return.
"""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Self, TypeVar

_T = TypeVar("_T")
Trigger = int | Callable[[bytes], bool]

_PIECE = 64 * 1024
_IN_FLIGHT = 1024  # pieces; the most that a delayed direction holds


class _Link:
    """One client's connection, and the one made for it to the server."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.server: socket.socket | None = None
        self.lost_bytes = False
        self.sent = 0  # bytes from the client since `cut_reply_after` was armed
        self.muted = False  # its request has gone through, and the reply must not
        self.ended = 0  # directions that are at their end
        self.tasks: list[asyncio.Task[None]] = []

    def close(self, *, hard: bool) -> None:
        """Ends both connections: by RST, as a machine that has lost its state does, or after what is still to be sent."""
        for task in self.tasks:
            task.cancel()
        for end in (self.client, self.server):
            if end is None or end.fileno() < 0:
                continue
            if hard:
                # Lingering for zero seconds sends RST in place of FIN, and drops what was not sent yet.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()


class Proxy:
    """A proxy in front of `host`:`port`, listening on 127.0.0.1:`self.port` until `close`."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._delay = 0.0
        self._silent = False
        self._refuses = False
        self._trigger: Trigger | None = None
        self._links: set[_Link] = set()
        self.accepted = 0  # connections so far
        self.received = 0  # bytes from clients so far
        self.replies_cut = 0  # how often `cut_reply_after` has struck
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"proxy-{self.port}", daemon=True)
        self._thread.start()

    # What tests call.

    def delay(self, seconds: float) -> None:
        """Each byte arrives that much later, in both directions; the throughput stays. Holds for what comes from now on."""
        self._call(lambda: setattr(self, "_delay", seconds))

    def cut(self) -> None:
        """Resets all connections now. New ones are served."""
        self._call(self._reset_all)

    def refuse(self) -> None:
        """Resets all connections, and every new one at once, as where no server listens, until `heal`."""

        def refuse() -> None:
            self._refuses = True
            self._reset_all()

        self._call(refuse)

    def black_hole(self) -> None:
        """From now on bytes are accepted and go nowhere, in both directions, on old connections and new ones."""
        self._call(lambda: setattr(self, "_silent", True))

    def cut_reply_after(self, trigger: Trigger) -> None:
        """Lets one request through and its reply not: the server does what it is asked, and the client never learns of it.

        The request is what a client sends from now on, until it comes to `trigger` bytes, or until `trigger` is true of a piece
        as it was received. From then on nothing goes back on that connection; when the server's reply comes, both sides are
        reset. It strikes once, and `replies_cut` counts. A client with other requests under way may see the cut too early: the
        first bytes of the server count as the reply. A `trigger` that looks into the bytes runs in the proxy's thread.
        """

        def arm() -> None:
            self._trigger = trigger
            for link in self._links:
                link.sent, link.muted = 0, False

        self._call(arm)

    def heal(self) -> None:
        """Behaves well again. Connections that have lost bytes are reset: no network resumes a stream with a hole in it."""

        def heal() -> None:
            self._delay, self._silent, self._refuses, self._trigger = 0.0, False, False, None
            for link in [link for link in self._links if link.lost_bytes]:
                self._drop(link)
            for link in self._links:
                link.muted = False

        self._call(heal)

    def close(self) -> None:
        """Resets all connections and stops listening. Does nothing a second time."""
        if not self._thread.is_alive():
            return

        def stop() -> None:
            self._reset_all()
            self._loop.stop()

        self._call(stop)
        self._thread.join(timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What the thread does. Everything below runs in the event loop.

    def _call(self, action: Callable[[], _T]) -> _T:
        done = threading.Event()
        result: list[_T] = []

        def run() -> None:
            try:
                result.append(action())
            finally:
                done.set()

        self._loop.call_soon_threadsafe(run)
        if not done.wait(timeout=10) or not result:
            raise RuntimeError("the proxy's thread does not answer")
        return result[0]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        accepting = self._loop.create_task(self._accept())
        try:
            self._loop.run_forever()
        finally:
            accepting.cancel()
            self._loop.run_until_complete(self._all_ended())
            self._listener.close()
            self._loop.close()

    async def _all_ended(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            client, _ = await self._loop.sock_accept(self._listener)
            client.setblocking(False)
            self.accepted += 1
            link = _Link(client)
            self._links.add(link)
            link.tasks.append(self._loop.create_task(self._serve(link)))

    async def _serve(self, link: _Link) -> None:
        if self._refuses:
            self._drop(link)
            return
        if self._silent:
            link.lost_bytes = True  # those that the server would have said first
        else:
            server = socket.socket(socket.AF_INET6 if ":" in self._target[0] else socket.AF_INET)
            server.setblocking(False)
            link.server = server
            try:
                await self._loop.sock_connect(server, self._target)
            except OSError:
                self._drop(link)
                return
            for end in (server, link.client):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.tasks.append(self._loop.create_task(self._pump(link, server, link.client, is_reply=True)))
        await self._pump(link, link.client, link.server, is_reply=False)

    async def _pump(self, link: _Link, source: socket.socket, target: socket.socket | None, *, is_reply: bool) -> None:
        """Moves one direction of a connection until its end, and passes the end on."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_IN_FLIGHT)
        if target is not None:
            link.tasks.append(self._loop.create_task(self._deliver(link, queue, target)))
        while True:
            try:
                data = await self._loop.sock_recv(source, _PIECE)
            except OSError:
                self._drop(link)
                return
            if self._silent or target is None:
                link.lost_bytes = True
                if not data:
                    return
                continue
            if not is_reply:
                self.received += len(data)
            if data and self._swallows(link, data, is_reply=is_reply):
                continue
            await queue.put((time.monotonic() + self._delay, data))
            if not data:
                return

    def _swallows(self, link: _Link, data: bytes, *, is_reply: bool) -> bool:
        """Follows `cut_reply_after`: whether a piece must not be passed on."""
        if is_reply:
            if link.muted:
                self.replies_cut += 1
                self._drop(link)
            return link.muted
        trigger = self._trigger
        if trigger is not None:
            link.sent += len(data)
            if trigger(data) if callable(trigger) else link.sent >= trigger:
                self._trigger, link.muted = None, True
        return False

    async def _deliver(self, link: _Link, queue: "asyncio.Queue[tuple[float, bytes]]", target: socket.socket) -> None:
        while True:
            due, data = await queue.get()
            await asyncio.sleep(due - time.monotonic())
            if self._silent:
                link.lost_bytes = True
                continue
            try:
                if data:
                    await self._loop.sock_sendall(target, data)
                    continue
                target.shutdown(socket.SHUT_WR)
                link.ended += 1
            except OSError:
                self._drop(link)
                return
            if link.ended == 2:
                self._drop(link, hard=False)
            return

    def _drop(self, link: _Link, *, hard: bool = True) -> None:
        link.close(hard=hard)
        self._links.discard(link)

    def _reset_all(self) -> None:
        for link in list(self._links):
            self._drop(link)
