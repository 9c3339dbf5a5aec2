"""The one edge where what fsspec and its drivers raise becomes an error of the contract."""

from collections.abc import Iterator
from contextlib import contextmanager

from transports import errors
from transports.local.errors import error_for


@contextmanager
def translated(operation: str, path: str, taken: str | None = None, *, change: bool = False) -> Iterator[None]:
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
