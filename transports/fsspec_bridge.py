"""A directory of any fsspec file system, with only those guarantees that are known of it.

fsspec has one interface over very different things, and says nothing about races: a move is often a copy and a delete, and
"xb" is often a look and a write. What is known of a file system stands in `_known`; of every other nothing is promised.

Not used, and why: `mv`, `copy` and `rm` of the base class expand "*", "?" and "[" in the names they are given; transactions
write to /tmp first and move from there, maybe to another disk; `pipe_file(mode="create")` is exists() and then a write.
Only paths are handed over, never URLs: fsspec cuts those at "?" and some of its methods do not strip them.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem

from transports import errors
from transports.base import CHUNK, Capabilities, Entry, Fact, Guarantee, Kind, Sink, Source, Transport
from transports.endpoint import Endpoint
from transports.local.errors import error_for
from transports.paths import checked, join, shown, split, unsafe_because
from transports.patterns import matches

_LONGEST_NAME = 255  # bytes; no file system tells, and what works here works elsewhere
_TIME_STEP = 1.0  # seconds; object stores stamp in whole ones
_INSTEAD = {"sftp": "sftp://", "ssh": "sftp://", "smb": "smb://"}

Step = Callable[[Any, str, str], None]


@dataclass(frozen=True, slots=True)
class _Knowledge:
    """How steps are made in one kind of file system, and what they are worth."""

    create_mode: str
    create: Fact
    publish: Step
    publish_fact: Fact
    claim: Step
    replace: Step
    rename_fact: Fact
    shared_handles: bool = False  # two opens of one file give one object, with one position


def connect_fsspec(endpoint: Endpoint) -> "FsspecTransport":
    """Connects to what `fsspec+<protocol>://` names.

    Raises Unsupported where fsspec has no such protocol or its driver is not installed, NotFound, and ConnectionFailed.
    """
    location = endpoint.location
    protocol = location.protocol
    if protocol in _INSTEAD:
        # Its client accepts every host key, and its renames are not claims.
        detail = f"fsspec's {protocol} is not used, for safety; write the URL with {_INSTEAD[protocol]}"
        raise errors.Unsupported("connect", detail=detail)
    try:
        kind = fsspec.get_filesystem_class(protocol)
    except (ValueError, ImportError) as error:
        raise errors.Unsupported("connect", detail=f"fsspec cannot open '{protocol}': {error}") from error
    authority, _, below = location.path.partition("/")
    options = dict(kind._get_kwargs_from_urls(f"{protocol}://{authority}/"))
    secret = endpoint.password or location.password
    if location.user:
        options["username"] = location.user
    if secret is not None:
        options["password"] = secret.reveal()
    with _translated("connect", ""):
        system = kind(**options, skip_instance_cache=True, use_listings_cache=False)
    return FsspecTransport(system, f"/{below}" if "host" in options else kind._strip_protocol(location.path))


class FsspecTransport(Transport):
    """A directory of an fsspec file system. The file system object is the caller's, and may be shared."""

    def __init__(self, system: AbstractFileSystem, root: str) -> None:
        """`root` is a path of that file system, not a URL. Raises NotFound where it is not a folder."""
        self._system: Any = system
        self._root = root.rstrip("/")
        self._open = True
        self._known = _known(system)
        with _translated("connect", ""):
            found = self._look(root) if self._root else {"type": "directory"}
        if found is None or found["type"] != "directory":
            what = "is not there" if found is None else "is not a folder"
            raise errors.NotFound("connect", detail=f"{root!r} {what}; make the folder first")
        self.capabilities = Capabilities(
            server=f"fsspec {fsspec.__version__}, {type(system).__name__}",
            create=self._known.create,
            publish=self._known.publish_fact,
            claim=self._known.rename_fact,
            replace=self._known.rename_fact,
            durable=Fact(Guarantee.NONE, "fsspec has no call that flushes to stable storage"),
            pattern=False,
            notification=False,
            longest_name=_LONGEST_NAME,
            time_resolution=_TIME_STEP,
        )

    def create(self, path: str) -> Sink:
        full = self._new("create", path)
        with _translated("create", path, change=True):
            return _FsspecSink(self._system, full, path, self._system.open(full, self._known.create_mode))

    def open_read(self, path: str) -> Source:
        full = self._named("open_read", path)
        with _translated("open_read", path):
            found = self._file("open_read", path, full)
            if found["size"] is None:
                raise errors.Unsupported("open_read", path, "this file system does not tell the size of its files")
            if self._known.shared_handles:
                return _FsspecSource(path, found["size"], None, lambda at, end: bytes(self._system.cat_file(full, at, end)))
            file = self._system.open(full, "rb")
            return _FsspecSource(path, found["size"], file, lambda at, end: bytes(file.read(end - at)))

    def publish(self, src: str, dst: str) -> None:
        source, target = self._named("publish", src), self._named("publish", dst)
        with _translated("publish", src, dst, change=True):
            self._file("publish", src, source)
            if self._look(target) is not None:
                raise errors.AlreadyExists("publish", dst)
            self._known.publish(self._system, source, target)

    def claim(self, src: str, dst: str) -> None:
        self._rename("claim", src, dst, self._known.claim)

    def replace(self, src: str, dst: str) -> None:
        self._rename("replace", src, dst, self._known.replace)

    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        """The listing is fetched whole: fsspec has none that streams."""
        full = self._folder("scan", folder)
        with _translated("scan", folder):
            listed = [_entry(found) for found in self._listed(full) if found["name"].strip("/") != full.strip("/")]
        return iter([entry for entry in listed if matches(pattern, entry.name)])

    def stat(self, path: str) -> Entry:
        full = self._named("stat", path) if path else self._folder("stat", "")
        if not path:
            return Entry("", Kind.FOLDER, None, None)
        with _translated("stat", path):
            return _entry(self._there("stat", path, full))

    def delete(self, path: str) -> None:
        full = self._named("delete", path)
        with _translated("delete", path, change=True):
            if _kind(self._there("delete", path, full)) is Kind.FOLDER:
                raise errors.Denied("delete", path, "it is a folder")
            self._system.rm_file(full)

    def make_dir(self, path: str) -> None:
        full = self._new("make_dir", path)
        with _translated("make_dir", path, change=True):
            self._system.mkdir(full, create_parents=False)
            if self._look(full) is None:
                raise errors.Unsupported("make_dir", path, "this file system has no empty folders")

    def remove_dir(self, path: str) -> None:
        full = self._named("remove_dir", path)
        with _translated("remove_dir", path, change=True):
            if _kind(self._there("remove_dir", path, full)) is not Kind.FOLDER:
                raise errors.NotFound("remove_dir", path, "it is not a folder")
            if self._listed(full):
                raise errors.Busy("remove_dir", path, "the folder is not empty")
            self._system.rmdir(full)

    def same_volume(self, first: str, second: str) -> bool | None:
        folders = self._folder("same_volume", first), self._folder("same_volume", second)
        if not isinstance(self._system, LocalFileSystem):
            return None
        with _translated("same_volume", first):
            return os.stat(folders[0]).st_dev == os.stat(folders[1]).st_dev

    def server_time(self, folder: str = "") -> float:
        scratch = join(self._folder("server_time", folder), f"T_{secrets.token_hex(8)}")
        with _translated("server_time", folder):
            try:
                with self._system.open(scratch, "wb"):
                    pass
                modified = _seconds(self._system.modified(scratch))
            finally:
                with suppress(FileNotFoundError):
                    self._system.rm_file(scratch)
        if modified is None:
            raise errors.Unsupported("server_time", folder, "this file system does not tell when a file was written")
        return modified

    def free_space(self, folder: str = "") -> int | None:
        self._folder("free_space", folder)
        return None

    def wait_for_change(self, folder: str, timeout: float) -> None:
        self._may("wait_for_change", folder)
        time.sleep(timeout)

    def close(self) -> None:
        self._open = False

    def _may(self, operation: str, path: str) -> None:
        if not self._open:
            raise errors.Unreachable(operation, path, "the connection was closed")
        checked(operation, path)

    def _named(self, operation: str, path: str) -> str:
        """The full path of a name whose folders are there."""
        self._may(operation, path)
        folder, name = split(path)
        if not name:
            raise errors.UnsafePath(operation, path, "the root itself is not to be changed")
        if len(name.encode()) > _LONGEST_NAME:
            raise errors.Unsupported(operation, path, f"a name has {_LONGEST_NAME} bytes at most")
        self._folder(operation, folder, on_behalf_of=path)
        return f"{self._root}/{path}"

    def _new(self, operation: str, path: str) -> str:
        """As `_named`, for a name that is free."""
        full = self._named(operation, path)
        with _translated(operation, path):
            if self._look(full) is not None:
                raise errors.AlreadyExists(operation, path)
        return full

    def _folder(self, operation: str, path: str, on_behalf_of: str | None = None) -> str:
        """The full path of a folder that is there. Links on the way are not followed.

        The root was looked at when the connection was made: an empty one may not exist at all in an object store.
        """
        self._may(operation, path)
        asked = path if on_behalf_of is None else on_behalf_of
        full = self._root
        for segment in path.split("/") if path else ():
            full = f"{full}/{segment}"
            with _translated(operation, asked):
                kind = _kind(self._there(operation, asked, full))
            if kind is Kind.LINK:
                raise errors.UnsafePath(operation, asked, f"{segment!r} is a symbolic link, and none is followed")
            if kind is not Kind.FOLDER:
                raise errors.NotFound(operation, asked, f"{segment!r} is not a folder")
        return full

    def _file(self, operation: str, path: str, full: str) -> Any:
        found = self._there(operation, path, full)
        if _kind(found) is not Kind.FILE:
            raise errors.Denied(operation, path, f"it is no file, but: {_kind(found).value}")
        return found

    def _there(self, operation: str, path: str, full: str) -> Any:
        found = self._look(full)
        if found is None:
            raise errors.NotFound(operation, path)
        return found

    def _look(self, full: str) -> Any:
        """What the file system tells of a path; None where nothing is."""
        self._system.invalidate_cache(full)
        try:
            return self._system.info(full)
        except (FileNotFoundError, NotADirectoryError, KeyError):
            pass
        # A dangling link is nothing to `info`, and takes its name all the same.
        is_link = getattr(self._system, "islink", None)
        return {"name": full, "type": "link", "size": None} if is_link is not None and is_link(full) else None

    def _listed(self, full: str) -> list[Any]:
        self._system.invalidate_cache(full)
        try:
            return list(self._system.ls(full, detail=True))
        except (FileNotFoundError, KeyError):
            # Some list, then ask for each: one that vanished between is no reason to see nothing.
            entries = [self._look(name) for name in self._system.ls(full, detail=False)]
            return [entry for entry in entries if entry is not None]

    def _rename(self, operation: str, src: str, dst: str, step: Step) -> None:
        source, target = self._named(operation, src), self._named(operation, dst)
        with _translated(operation, src, dst, change=True):
            self._file(operation, src, source)
            taken = self._look(target)
            if taken is not None and _kind(taken) is not Kind.FILE:
                raise errors.Denied(operation, dst, f"it is no file, but: {_kind(taken).value}")
            if source != target:
                step(self._system, source, target)


class _FsspecSink(Sink):
    def __init__(self, system: Any, full: str, path: str, file: Any) -> None:
        self._system = system
        self._full = full
        self._path = path
        self._file: Any = file
        self._written = 0
        self._finished = False

    def write(self, data: bytes) -> None:
        if self._file is None:
            raise errors.ServerFailure("write", self._path, "the file is closed already")
        with _translated("write", self._path):
            self._file.write(data)
        self._written += len(data)

    def commit(self) -> None:
        if self._file is None:
            raise errors.ServerFailure("commit", self._path, "the file is closed already")
        file, self._file = self._file, None
        with _translated("commit", self._path):
            file.close()
            self._system.invalidate_cache(self._full)
            size = self._system.info(self._full)["size"]
        if size != self._written:
            raise errors.ServerFailure("commit", self._path, f"{self._written} bytes were written and {size} are there")
        self._finished = True

    def abort(self) -> None:
        if self._finished:
            return
        self._finished = True
        file, self._file = self._file, None
        with _translated("abort", self._path):
            try:
                if file is not None:
                    file.close()
            finally:
                with suppress(FileNotFoundError):
                    self._system.rm_file(self._full)


class _FsspecSource(Source):
    def __init__(self, path: str, size: int, file: Any, read: Callable[[int, int], bytes]) -> None:
        self.size = size
        self._path = path
        self._file = file
        self._read = read
        self._at = 0

    def read(self, limit: int = CHUNK) -> bytes:
        end = min(self._at + limit, self.size)
        if end <= self._at:
            return b""
        with _translated("read", self._path):
            data = self._read(self._at, end)
        if not data:
            raise errors.ChangedWhileReading("read", self._path, f"it ended after {self._at} of {self.size} bytes")
        self._at += len(data)
        return data

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()


def _known(system: AbstractFileSystem) -> _Knowledge:
    name = type(system).__name__
    if type(system) is LocalFileSystem:
        # `mv` of this one copies where it cannot rename: the calls of the operating system do not.
        return _Knowledge(
            create_mode="xb",
            create=Fact(Guarantee.ATOMIC, "mode 'xb' reaches open(O_EXCL)"),
            publish=_link_and_remove,
            publish_fact=Fact(Guarantee.ATOMIC, "a hard link, which replaces nothing; then the source is removed"),
            claim=_local_rename,
            replace=_local_rename,
            rename_fact=Fact(Guarantee.ATOMIC, "rename(2)"),
        )
    own_move = type(system).mv is not AbstractFileSystem.mv
    move, how = (_move, f"mv of {name}") if own_move else (_copy_and_remove, "a copy, then a delete")
    unproved = Fact(Guarantee.NONE, f"{how}: nothing is known of what rivals see and do")
    looked = Fact(Guarantee.CHECKED, f"{name} is asked whether the name is free, and then written to")
    return _Knowledge(
        create_mode="wb",
        create=looked,
        publish=move,
        publish_fact=Fact(Guarantee.NONE, f"{name} is asked whether the name is free; then {how}"),
        claim=move,
        replace=move,
        rename_fact=unproved,
        shared_handles=isinstance(system, MemoryFileSystem),
    )


def _local_rename(system: Any, source: str, target: str) -> None:
    os.rename(source, target)


def _link_and_remove(system: Any, source: str, target: str) -> None:
    system.link(source, target)
    try:
        system.rm_file(source)
    except OSError as error:
        detail = "the target is made, and the source could not be removed"
        raise errors.OutcomeUnknown("publish", split(source)[1], detail) from error


def _copy_and_remove(system: Any, source: str, target: str) -> None:
    system.cp_file(source, target)
    system.rm_file(source)


def _move(system: Any, source: str, target: str) -> None:
    system.mv(source, target)


def _kind(found: Any) -> Kind:
    if found.get("islink"):
        return Kind.LINK
    return {"file": Kind.FILE, "directory": Kind.FOLDER, "link": Kind.LINK}.get(found["type"], Kind.OTHER)


def _entry(found: Any) -> Entry:
    name = found["name"].rstrip("/").rpartition("/")[2]
    kind = _kind(found)
    if unsafe_because(name):
        name, kind = shown(name.encode("utf-8", "surrogateescape")), Kind.OTHER
    modified = next((found[key] for key in ("mtime", "LastModified", "last_modified", "updated") if key in found), None)
    return Entry(name, kind, found.get("size"), _seconds(modified))


def _seconds(moment: object) -> float | None:
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return float(moment) if isinstance(moment, int | float) else None


@contextmanager
def _translated(operation: str, path: str, taken: str | None = None, *, change: bool = False) -> Iterator[None]:
    """The one edge: what fsspec and the libraries below it raise leaves as an error of the contract.

    `taken` is the path that an error about a taken name is about. After a `change`, an error that is not known to come
    before it leaves the outcome unknown.
    """
    try:
        yield
    except errors.TransportError:
        raise
    except FileExistsError as error:
        raise errors.AlreadyExists(operation, taken or path) from error
    except (FileNotFoundError, KeyError) as error:
        raise errors.NotFound(operation, path) from error
    except PermissionError as error:
        raise errors.Denied(operation, path, str(error)) from error
    except IsADirectoryError as error:
        raise errors.Denied(operation, path, "it is a folder") from error
    except (NotImplementedError, ValueError) as error:
        # How fsspec says that a file system has no such call, or that a mode is not for it.
        raise errors.Unsupported(operation, path, str(error) or type(error).__name__) from error
    except OSError as error:
        failure = error_for(operation, path, error, change=change)
        if change and type(failure) is errors.ServerFailure:
            failure = errors.OutcomeUnknown(operation, path, failure.detail)
        raise failure from error
    except Exception as error:
        # Every driver has errors of its own, and the contract has none that are not in its tree.
        kind = errors.OutcomeUnknown if change else errors.ServerFailure
        raise kind(operation, path, f"{type(error).__name__}: {error}") from error
