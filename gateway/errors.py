"""What the gateway itself can report, beside the protocol's and the transports' errors.

GatewayError
├── ConfigurationError     a setting is wrong: which, why, and what would be right
├── UnfitDrop              the drop's endpoint cannot keep what a drop promises
├── UnfitSource            what should be sent is no file, or has a name that no manifest can say
├── SourceChanged          a file changed while it was being sent
├── SourceFailed           the source drop failed while a payload was read
├── HandlerFailed          the handler did not process the item; it may be tried again
├── DeliveryFailed         the item could not be stored where it should go; not the item's fault
└── NotYet                 something there has to be waited for; the item goes back, and the others go on
"""


class GatewayError(Exception):
    """Something the person who runs dropgate can act on. The message says what happened and what to do."""


class ConfigurationError(GatewayError):
    """One or more settings are wrong; every one is named."""


class UnfitDrop(GatewayError):
    """This directory cannot be used as a drop: a guarantee is missing, or its folders are on different volumes."""


class UnfitSource(GatewayError):
    """This cannot be sent at all; no number was taken, and nothing was written."""


class SourceChanged(GatewayError):
    """The file grew, shrank or was written to while it was read; nothing of it was published."""


class SourceFailed(GatewayError):
    """The source drop failed while a payload was read; its transport error is the cause. Nothing was published."""


class HandlerFailed(GatewayError):
    """The handler ran and did not succeed. It counts as an attempt."""


class DeliveryFailed(GatewayError):
    """The destination failed, not the item: it goes back to ready, and no attempt is counted."""


class NotYet(GatewayError):
    """Something at the destination has to be waited for: the item goes back uncounted, and other items are not held up."""
