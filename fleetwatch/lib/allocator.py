"""How this process gives memory back to the system, and how often it looks for garbage."""

import ctypes
import gc

# https://man7.org/linux/man-pages/man3/mallopt.3.html
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_MOST_ARENAS = -8
KEPT_BYTES = 128 * 2**20
LARGEST_BYTES = 32 * 2**20  # of one array; more is not allowed
# new objects until the young ones are looked through, and how often that is until older ones are
COLLECT_AFTER = (20_000, 20, 20)


def keep_freed() -> bool:
    """Up to KEPT_BYTES that were freed stay with the process, if its allocator is glibc's (False:
    it is not); threads that start later share them.

    Arrays of a node's day are some hundred kilobytes each, a month's columns of a large fleet some
    megabytes: by default each is a mapping of its own, which the kernel fills with zeros page by
    page; that is a sixth of what judging takes, and a third of a page's figures.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    # a heap of each thread's own would be given back as soon as it is empty
    asked = ((_MOST_ARENAS, 1), (_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, LARGEST_BYTES))
    return all(mallopt(*each) for each in asked)


def spare_loaded() -> None:
    """What is loaded by now lives as long as the process: garbage collections no longer look at it.
    What comes after is looked through seldom.

    An answer makes objects by the ten thousand, hardly one of them in a circle: to look for these
    takes a quarter of a back-test.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
