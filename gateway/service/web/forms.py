"""Reading a form that was sent: bounded in size and in time."""

import asyncio
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

_LARGEST = 16 * 1024  # bytes; no form of ours comes near
_PATIENCE = 10.0  # seconds


class BadForm(Exception):
    """What was sent is no form that this page makes."""


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises BadForm for one that is too large, too slow, or none at all."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/x-www-form-urlencoded", ""):
        raise BadForm("send a form, as application/x-www-form-urlencoded")
    body = b""
    try:
        async with asyncio.timeout(_PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > _LARGEST:
                    raise BadForm("the form is too large")
    except (TimeoutError, ClientDisconnect):
        raise BadForm("the form did not come in time") from None
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict"))
    except ValueError:
        raise BadForm("the form cannot be read") from None
