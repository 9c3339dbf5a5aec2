"""What can go wrong between a worker and its ledger.

GatewayError
├── LedgerUnavailable          it cannot be reached, read or written just now
├── LedgerMoved                the entry is not what it was: another worker has taken the key over; nothing was recorded
└── TransactionsUnsupported    this kind of ledger has no database that a handler could take part in

A wrong URL, a missing driver and a folder that other hosts share are ConfigurationErrors.
"""

from gateway.errors import GatewayError


class LedgerUnavailable(GatewayError):
    """The ledger cannot be used just now. The message says which, why, and what to do.

    Of a compare-and-set that ends so it is unknown whether it was made; reading the entry, once that works again, tells.
    """


class LedgerMoved(GatewayError):
    """The key was taken over by another worker meanwhile. Everything that was done in the transaction was rolled back."""


class TransactionsUnsupported(GatewayError):
    """A handler's effect cannot be committed together with this ledger's entry."""
