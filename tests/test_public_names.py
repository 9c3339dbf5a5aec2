"""What others build on: the names of the public modules, and the members of what they hold. A change here is a decision."""

import inspect
from types import ModuleType

import gateway.drop
import transports.base
import transports.errors

PUBLIC = {
    gateway.drop: {"Drop"},
    transports.base: {
        *("CHUNK", "MARK", "Capabilities", "Entry", "Fact", "Guarantee", "Kind", "Sink", "Source", "Transport"),
        *("check_start", "check_left", "check_before"),  # for backends
    },
    transports.errors: {
        *("TransportError", "NotFound", "AlreadyExists", "Denied", "Busy", "NoSpace", "CrossVolume", "Unsupported"),
        *("UnsafePath", "ChangedWhileReading", "ServerFailure", "OutcomeUnknown"),
        *("ConnectionFailed", "Unreachable", "AuthenticationFailed", "HostKeyRejected", "ShareNotFound"),
    },
}

CONSTANTS = {"CHUNK", "MARK"}  # they do not say where they were made

MEMBERS = {
    gateway.drop.Drop: {
        *("endpoint", "rules", "groups", "signing_key", "signing_key_id", "clock", "circuit", "slots"),
        *("at", "connection", "producer", "consumer", "heartbeat", "driver", "snapshot"),
    },
    transports.base.Transport: {
        *("capabilities", "create", "open_read", "publish", "claim", "replace", "scan", "stat", "delete", "make_dir"),
        *("remove_dir", "same_volume", "server_time", "free_space", "wait_for_change", "close", "resume"),
    },
    transports.base.Sink: {"write", "commit", "abort", "acknowledged", "leave"},
    transports.base.Source: {"size", "modified", "read", "close"},
    transports.base.Capabilities: {
        *("server", "create", "publish", "claim", "replace", "durable", "pattern", "notification", "longest_name"),
        *("time_resolution", "resume"),
    },
    transports.base.Entry: {"name", "kind", "size", "modified"},
}


def own_names(module: ModuleType) -> set[str]:
    """What a module defines, less what it imports and what is private."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (getattr(value, "__module__", None) == module.__name__ or name in CONSTANTS)
    }


def test_the_public_modules_define_exactly_these_names() -> None:
    for module, names in PUBLIC.items():
        assert own_names(module) == names, module.__name__


def test_the_public_face_gives_all_that_a_program_needs() -> None:
    assert gateway.drop.__all__ == [
        *("Consumer", "Delivery", "Drop", "Event", "Handler", "Outgoing", "Producer", "Result", "Rules")
    ]


def test_the_public_classes_have_exactly_these_members() -> None:
    for thing, members in MEMBERS.items():
        own = {name for name in (*vars(thing), *inspect.get_annotations(thing)) if not name.startswith("_")}
        assert own == members, thing.__name__


def test_every_error_of_a_transport_is_a_transport_error() -> None:
    for name in PUBLIC[transports.errors]:
        assert issubclass(getattr(transports.errors, name), transports.errors.TransportError)
