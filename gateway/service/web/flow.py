"""Responses that go on for long, and end where their reader has stopped reading."""

import asyncio
from collections.abc import AsyncGenerator, Mapping

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

_STALLED = 60.0  # seconds that nothing could be sent


class Flow(StreamingResponse):
    """A stream whose source is closed at its end, however it ends.

    A reader who takes nothing for a minute is given up: he would hold a connection to a drop for ever.
    """

    def __init__(self, source: AsyncGenerator[str | bytes, None], kind: str, headers: Mapping[str, str]) -> None:
        super().__init__(source, headers=headers, media_type=kind)
        self._source = source

    async def stream_response(self, send: Send) -> None:
        async def bounded(message: Message) -> None:
            async with asyncio.timeout(_STALLED):
                await send(message)

        try:
            await super().stream_response(bounded)
        except TimeoutError:
            return  # the response is cut short of its length, and its connection closed
        finally:
            await self._source.aclose()
