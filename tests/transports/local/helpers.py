"""What the tests of local folders share: the ways to publish, and calls that fail."""

import os
from collections.abc import Callable
from typing import NoReturn

from transports.local.publish import link_and_unlink, rename_noreplace, reserve_and_rename

WAYS = {"renameat2": rename_noreplace, "link": link_and_unlink, "reservation": reserve_and_rename}


def raising(number: int) -> Callable[..., NoReturn]:
    """A system call that fails with this errno."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return refuse
