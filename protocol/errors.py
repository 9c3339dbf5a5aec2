"""What can be wrong with a name, a manifest or a step of the hand-off.

ProtocolError
├── InvalidName               a prefix, suffix, owner or name outside the grammar
├── InvalidManifest           cannot be trusted: syntax, version, types, or names of other items
├── InvalidChecksumFile       the same, for `signal = "checksum"`
├── InvalidLease              a lease that cannot be read
├── InvalidReceipt            a receipt that cannot be read
├── InvalidRules              settings of a drop that contradict each other
├── SignatureRejected         unsigned, or signed by nobody who is trusted
├── IntegrityError            the bytes are not those the manifest describes
│   └── StoredWrong           the server has other bytes than it was given; the item itself is sound
├── SequenceTaken             the number is in use, in whatever state
├── SequenceExhausted         the next number would outgrow its width
├── PublishInterrupted        cut after the first rename: goes forward only, must not be sent again
├── ClaimLost                 the claim is no longer ours: stop, touch nothing
├── StillBusy                 somebody held a file open for all of `busy_patience`: nothing has changed
├── OutcomeUnresolved         a change was asked for, and nobody can tell whether it was made
└── Anomaly                   what is there contradicts the protocol: nothing was touched, a person has to look
"""


class ProtocolError(Exception):
    """A rule of the drop protocol stands in the way. The message is for the person who has to act on it."""


class InvalidName(ProtocolError):
    """Outside the grammar of PROTOCOL section 2."""


class InvalidManifest(ProtocolError):
    """A manifest that must not be believed (PROTOCOL section 3)."""


class InvalidChecksumFile(ProtocolError):
    """A checksum file that must not be believed (PROTOCOL section 3)."""


class InvalidLease(ProtocolError):
    """A lease that cannot be read (PROTOCOL section 6)."""


class InvalidReceipt(ProtocolError):
    """A receipt that cannot be believed. `torn`: it is not whole, so that nobody reads it and it may be replaced."""

    def __init__(self, message: str, *, torn: bool) -> None:
        super().__init__(message)
        self.torn = torn


class InvalidRules(ProtocolError):
    """Settings of a drop that contradict each other: it would promise what it cannot keep."""


class SignatureRejected(ProtocolError):
    """The manifest is not signed by a trusted key (PROTOCOL section 3)."""


class IntegrityError(ProtocolError):
    """A payload differs from its manifest in size or hash."""


class StoredWrong(IntegrityError):
    """What a server stored is not what was written to it; nothing was published (PROTOCOL section 5)."""


class SequenceTaken(ProtocolError):
    """The number exists already, in some state (PROTOCOL section 4)."""


class SequenceExhausted(ProtocolError):
    """No number of the configured width is left (PROTOCOL section 2)."""


class PublishInterrupted(ProtocolError):
    """The publication was begun and not finished: some names are public already.

    `left` are the paths of the drop that are still there under a before name. Nothing is lost; whoever finishes the
    publication needs only renames. Sending the same content again would hand it over twice.
    """

    def __init__(self, message: str, left: tuple[str, ...]) -> None:
        super().__init__(message)
        self.left = left


class ClaimLost(ProtocolError):
    """The claim was taken away meanwhile (PROTOCOL section 6). What was done since must not be completed."""


class StillBusy(ProtocolError):
    """A rename of ours was held up by an open file for all of `busy_patience`; nothing has changed (section 10)."""


class OutcomeUnresolved(ProtocolError):
    """A change was asked for, its reply was lost, and looking failed as well (section 9). It happened, or it did not."""


class Anomaly(ProtocolError):
    """Two files claim one name, or one file two. Nothing was touched; the message names them."""
