"""What every request passes: the host's name, who asks, what he may do; and the headers that every answer has."""

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.service.web.access import SESSION_AGE, Access, Role, Visitor
from gateway.service.web.forms import BadForm, read_form

Handler = Callable[[Request], Awaitable[Response]]

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        # No text can become markup in the browser: every way for it is closed, also to our own script.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not "no-referrer": a browser would then not say either where a form was sent from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


@dataclass(frozen=True, slots=True)
class Guard:
    """ASGI middleware around the whole page."""

    app: ASGIApp
    access: Access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        request = Request(scope)
        if self.access.open and not is_loopback_name(request.headers.get("host", "")):
            text = (
                "This page is for this host alone, so it is asked for as localhost or 127.0.0.1.\n"
                "To reach it by another name, give [web] a token or users.\n"
            )
            await PlainTextResponse(text, 421)(scope, receive, with_headers)
            return
        visitor, cookie = self.access.visitor(request.cookies, request.headers.get("authorization", "")), ""
        if not visitor.session and not visitor.bearer:
            visitor, cookie = self.access.begin(visitor)  # kept only by whoever is sent a document
        scope["state"] = {**scope.get("state", {}), "visitor": visitor, "cookie": cookie}
        await self.app(scope, receive, with_headers)


def is_loopback_name(host: str) -> bool:
    """Whether a Host header names this host itself. Any other may be a stranger's name that was made to lead here."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def visitor_of(request: Request) -> Visitor:
    """Who asks."""
    found = request.state.visitor
    assert isinstance(found, Visitor)  # noqa: S101 - set for every request by the guard
    return found


def secure(request: Request) -> bool:
    """Whether the browser came by https."""
    return request.url.scheme == "https"


def set_session(request: Request, response: Response, access: Access, value: str) -> None:
    """Gives the browser its session."""
    response.set_cookie(
        access.cookie, value, max_age=SESSION_AGE, path="/", secure=secure(request), httponly=True, samesite="strict"
    )


def needs(role: Role, access: Access, handler: Handler) -> Handler:
    """A handler for those who have at least this role; of a POST, only where it comes from our own forms."""

    async def guarded(request: Request) -> Response:
        visitor = visitor_of(request)
        if visitor.role < role:
            return _refused(request, visitor, role)
        if request.method == "POST":
            try:
                form = await read_form(request)
            except BadForm as error:
                return PlainTextResponse(f"{error}\n", 400)
            request.state.form = form
            if not visitor.bearer:
                fault = forgery(request, access, visitor, form.get("csrf", ""))
                if fault:
                    return PlainTextResponse(f"{fault}\n", 403)
            elif not _same_origin(request, must=False):
                return PlainTextResponse("This request comes from another page.\n", 403)
        return await handler(request)

    return guarded


def _refused(request: Request, visitor: Visitor, role: Role) -> Response:
    if visitor.role is not Role.NOBODY:
        return PlainTextResponse(f"This is for the role {role.name.lower()}; you are {visitor.role.name.lower()}.\n", 403)
    wants_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if wants_page:
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(back, safe='')}", 303)
    return PlainTextResponse("Log in first, or send the token.\n", 401, {"WWW-Authenticate": 'Bearer realm="dropgate"'})


def forgery(request: Request, access: Access, visitor: Visitor, token: str) -> str:
    """Why a POST is not taken for one of our own forms; "" where it is."""
    if not _same_origin(request, must=True):
        return "This request comes from another page."
    if not access.is_form_token(visitor, token):
        return "This form is too old, or was made elsewhere. Go back, reload the page, and press again."
    return ""


def _same_origin(request: Request, *, must: bool) -> bool:
    """What the browser says of where a request comes from. `must`: it has to say something."""
    headers: Headers = request.headers
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is None and site is None:
        return not must
    own = f"{request.url.scheme}://{headers.get('host', '')}"
    return origin in (None, own) and site in (None, "same-origin")
