"""Opens folders below a root, one part of the path at a time, so that no symbolic link leads out."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from transports import errors
from transports.local.errors import error_for, translated
from transports.paths import checked, split

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Folders:
    """The folders below one root.

    The root is opened anew for every call: a root that was removed, or has another disk mounted on it, is noticed, and
    no handle keeps a disk from being unmounted. Links on the way *to* the root are the operator's own and are followed.
    """

    def __init__(self, root: str) -> None:
        """Raises NotFound, Denied."""
        self.root = os.path.abspath(root)
        self._encoded = self.root.encode("utf-8", "surrogateescape")  # whatever the locale says
        try:
            folder = os.open(self._encoded, _FOLDER)
        except (FileNotFoundError, NotADirectoryError) as error:
            what = "is not there" if isinstance(error, FileNotFoundError) else "is not a folder"
            detail = f"'{self.root}' {what}; make the folder, or mount its disk, and start again"
            raise errors.NotFound("connect", detail=detail) from error
        except OSError as error:
            raise error_for("connect", self.root, error) from error
        try:
            self._device = os.fstat(folder).st_dev
        finally:
            os.close(folder)

    @contextmanager
    def opened(self, operation: str, path: str, *, on_behalf_of: str | None = None) -> Iterator[int]:
        """A descriptor of a folder, for as long as the block lasts. Raises NotFound, Denied, UnsafePath, Unreachable.

        `on_behalf_of` is the path that the caller was given, and that an error names, where it is another one.
        """
        folder = self.open(operation, path, on_behalf_of=on_behalf_of)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def holding(self, operation: str, path: str) -> Iterator[tuple[int, bytes]]:
        """A descriptor of the folder that holds a name, and the name."""
        folder, name = named(operation, path)
        with self.opened(operation, folder, on_behalf_of=path) as descriptor:
            yield descriptor, name

    def open(self, operation: str, path: str, *, on_behalf_of: str | None = None) -> int:
        """A descriptor of a folder, for the caller to close."""
        asked = path if on_behalf_of is None else on_behalf_of
        folder = self._open_root(operation, asked)
        for segment in checked(operation, path).split("/") if path else ():
            outer = folder
            try:
                folder = os.open(segment.encode(), _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
            except OSError as error:
                raise _in_the_way(operation, asked, outer, segment, error) from error
            finally:
                os.close(outer)
        return folder

    def _open_root(self, operation: str, path: str) -> int:
        try:
            folder = os.open(self._encoded, _FOLDER)
        except PermissionError as error:
            raise error_for(operation, path, error) from error
        except OSError as error:
            # Not NotFound: that would read as "this file is gone", and a whole drop would look empty.
            raise errors.Unreachable(operation, path, f"the root '{self.root}' cannot be opened: {error.strerror}") from error
        if os.fstat(folder).st_dev != self._device:
            os.close(folder)
            raise errors.Unreachable(operation, path, f"another file system is mounted at '{self.root}' since the connection")
        return folder


def named(operation: str, path: str) -> tuple[str, bytes]:
    """The folder and the name of a path that is not the root."""
    folder, name = split(checked(operation, path))
    if not name:
        raise errors.UnsafePath(operation, path, "the root itself is not to be changed")
    return folder, name.encode()


def flush(folder: int) -> bool:
    """Brings changed names of a folder to the disk; False where its file system has no such call. Raises OSError."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF):
            return False
        raise
    return True


def _in_the_way(operation: str, path: str, outer: int, segment: str, error: OSError) -> errors.TransportError:
    # For a link the kernel says ENOTDIR here, as for a file.
    with translated(operation, path):
        try:
            link = stat.S_ISLNK(os.stat(segment.encode(), dir_fd=outer, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            link = False
    if link:
        return errors.UnsafePath(operation, path, f"{segment!r} is a symbolic link, and none is followed")
    failure = error_for(operation, path, error)
    return type(failure)(operation, path, f"the folder {segment!r}: {failure.detail}")
