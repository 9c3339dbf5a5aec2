"""A directory of any fsspec file system, with only those guarantees that are known of it.

fsspec has one interface over very different things, and says nothing about races: a move is often a copy and a delete, and
"xb" is often a look and a write. What is known of a file system stands in `known`; of every other nothing is promised.

Not used, and why: `mv`, `copy` and `rm` of the base class expand "*", "?" and "[" in the names they are given; transactions
write to /tmp first and move from there, maybe to another disk; `pipe_file(mode="create")` is exists() and then a write.
Only paths are handed over, never URLs: fsspec cuts those at "?" and some of its methods do not strip them.
"""

from transports.fsspec_bridge.transport import FsspecTransport, connect_fsspec

__all__ = ["FsspecTransport", "connect_fsspec"]
