"""Has the C library give memory back: a process that runs for months must not keep what its largest hour needed.

glibc gives each thread an arena of its own, keeps in it what large buffers leave behind, and raises the size from which
buffers are returned at once with the largest that it has seen (mallopt(3)). With dozens of threads that move chunks of files
this is most of the process.
"""

import ctypes

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD; setting it ends its growing
_ARENAS = 2
_LARGE = 128 * 1024  # bytes; less than a chunk of a file


def return_memory() -> bool:
    """Bounds what is kept, for threads that start from here on. False where the C library has no such settings."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_ARENA_MAX, _ARENAS)) and bool(mallopt(_MMAP_THRESHOLD, _LARGE))
