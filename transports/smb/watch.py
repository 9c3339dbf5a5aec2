"""Waiting for the names in a folder to change, with CHANGE_NOTIFY."""

from transports.smb import messages
from transports.smb.errors import Refused
from transports.smb.link import Link
from transports.smb.status import Nt

# A change: "too much to tell" is the usual answer, since no room is given for details.
_CHANGED = (Nt.SUCCESS, Nt.NOTIFY_ENUM_DIR)
_NOT_HERE = (Nt.NOT_IMPLEMENTED, Nt.NOT_SUPPORTED, Nt.INVALID_DEVICE_REQUEST)


class Watch:
    """An open folder with one request for its changes under way; the server keeps what happens between two requests.

    Every method raises `Refused` and `Lost`. While it is there, nobody can remove the folder.
    """

    def __init__(self, link: Link, folder: str, wire: str) -> None:
        self._link = link
        self.folder = folder
        opening = messages.open_(wire, messages.READ_DATA | messages.READ_ATTRIBUTES, messages.SHARE_ALL, messages.FOLDER)
        self._handle = link.enter(opening)[0].file_id
        self._request = link.start(messages.watch(self._handle))

    def wait(self, timeout: float) -> bool:
        """Returns when something changed, or after `timeout` seconds; False where the server has no notification."""
        if not self._link.arrived(self._request, timeout):
            return True
        status = self._answer()
        if status in _NOT_HERE:
            return False
        if status not in _CHANGED:
            raise Refused(status)
        self._request = self._link.start(messages.watch(self._handle))
        return True

    def close(self) -> None:
        """Closing the folder ends the request that is under way."""
        try:
            self._link.call(messages.close(self._handle))
        except Refused:
            return  # the server has closed it, and what was asked of it, before
        self._answer()

    def _answer(self) -> int:
        try:
            self._link.finish(self._request)
        except Refused as refused:
            return refused.status
        return Nt.SUCCESS
