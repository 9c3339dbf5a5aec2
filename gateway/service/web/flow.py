"""Responses that go on for long, and end where their reader has stopped reading."""

import asyncio

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

_STALLED = 60.0  # seconds that nothing could be sent


class Flow(StreamingResponse):
    """A stream that gives up a reader who takes nothing for a minute: he would hold a connection to a drop for ever."""

    async def stream_response(self, send: Send) -> None:
        async def bounded(message: Message) -> None:
            async with asyncio.timeout(_STALLED):
                await send(message)

        await super().stream_response(bounded)
