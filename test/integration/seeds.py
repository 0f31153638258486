"""The seed of a run: new each time, printed, and given by FOREBAY_SEED to repeat one.

A random test asks `seeds(name, count)` for its seeds. A seed that has failed becomes a fixed case: it is added to the
`known` ones of that test, which come first in every run.
"""

import os
import random
import secrets
import zlib

SEED = int(os.environ.setdefault("FOREBAY_SEED", str(secrets.randbelow(1 << 31))))


def seed_of(name: str) -> int:
    """The seed of one test in this run; the same for the same FOREBAY_SEED. Positive, and less than 2^31."""
    return random.Random(f"{SEED} {zlib.crc32(name.encode())}").randrange(1, 1 << 31)


def seeds(name: str, count: int, known: tuple[int, ...] = ()) -> list[int]:
    """The seeds that once failed, and `count` that are new in this run, following each other."""
    first = seed_of(name)
    return [*known, *range(first, first + count)]
