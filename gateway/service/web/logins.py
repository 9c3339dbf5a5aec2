"""The handlers of logging in and out."""

import math
from dataclasses import dataclass

import anyio
import anyio.to_thread
import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.service.web.access import Access
from gateway.service.web.forms import BadForm, read_form
from gateway.service.web.guard import forgery, set_session, visitor_of
from gateway.service.web.render import Renderer
from gateway.service.web.throttle import Throttle, keys

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

_AT_A_TIME = 2  # a check of a password takes much memory on purpose


@dataclass(frozen=True, slots=True)
class Logins:
    """Each method answers one address."""

    access: Access
    renderer: Renderer
    throttle: Throttle
    _checks: anyio.CapacityLimiter

    @classmethod
    def of(cls, access: Access, renderer: Renderer) -> "Logins":
        """With limits of their own."""
        throttle = Throttle(renderer.site.context.clock.monotonic)
        return cls(access, renderer, throttle, anyio.CapacityLimiter(_AT_A_TIME))

    async def show(self, request: Request) -> Response:
        """The form."""
        if self.access.open or visitor_of(request).role:
            return RedirectResponse(_next(request.query_params.get("next", "")), 303)
        return self._form(request, request.query_params.get("next", ""))

    async def login(self, request: Request) -> Response:
        """Whoever knows the token or a password is given a session."""
        try:
            form = await read_form(request)
        except BadForm as error:
            return self._form(request, "", f"{error}", 400)
        wanted = form.get("next", "")
        if fault := forgery(request, self.access, visitor_of(request), form.get("csrf", "")):
            return self._form(request, wanted, fault, 403)
        name, secret = form.get("name", "").strip()[:200], form.get("secret", "")[:1000]
        address = request.client.host if request.client is not None else ""
        tried = keys(address, name)
        wait = self.throttle.attempt(tried)
        if wait > 0:
            seconds = math.ceil(wait)
            text = f"Too many attempts. Try again in {seconds} second{'s' if seconds != 1 else ''}."
            response = self._form(request, wanted, text, 429)
            response.headers["Retry-After"] = f"{seconds}"
            return response
        found = await anyio.to_thread.run_sync(self.access.login, name, secret, limiter=self._checks)
        if found is None:
            # Without the name: people type their password there.
            log.warning("login refused", address=address)
            return self._form(request, wanted, "That is not right.", 403)
        self.throttle.succeeded(tried)
        # A new session: whoever planted the old one in this browser does not know it.
        _, cookie = self.access.begin(found)
        response = RedirectResponse(_next(wanted), 303)
        set_session(request, response, self.access, cookie)
        return response

    async def logout(self, request: Request) -> Response:
        """Ends the session."""
        self.access.end(visitor_of(request))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(self.access.cookie, path="/", httponly=True, samesite="strict")
        return response

    def _form(self, request: Request, wanted: str, fault: str = "", status: int = 200) -> Response:
        return self.renderer.document(
            request,
            "login.html",
            status,
            wanted=_next(wanted),
            fault=fault,
            users=bool(self.access.settings.user),
            token=bool(self.access.token),
        )


def _next(wanted: str) -> str:
    """Where to go after the login: an address of this page, and of nothing else."""
    safe = wanted.startswith("/") and not wanted.startswith("//") and wanted.isprintable() and "\\" not in wanted
    return wanted if safe else "/"
