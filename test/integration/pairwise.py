"""Some of the combinations of several settings, such that each two values of two settings come together in one."""

import itertools
import os
from random import Random

from seeds import seed_of

LONG = os.environ.get("FOREBAY_TEST_LONG") == "1"


def pairwise(name: str, *settings) -> list[tuple]:
    """Other combinations with each FOREBAY_SEED; FOREBAY_TEST_LONG=1 takes all there are.

    Each of `settings` is the list of its values. `name` tells this choice from others of the same run.
    """
    everything = list(itertools.product(*settings))
    if LONG:
        return everything
    places = list(itertools.combinations(range(len(settings)), 2)) or [(0, 0)]

    def pairs(combination: tuple) -> set[tuple]:
        return {(one, other, combination[one], combination[other]) for one, other in places}

    shuffled = list(everything)
    Random(seed_of(name)).shuffle(shuffled)
    wanted = set().union(*map(pairs, everything))
    chosen = []
    while wanted:
        best = max(shuffled, key=lambda combination: len(pairs(combination) & wanted))
        wanted -= pairs(best)
        chosen.append(best)
    return sorted(chosen, key=everything.index)


def some_of(name: str, values: list, count: int = 1) -> list:
    """So many of the values, others with each FOREBAY_SEED; all of them with FOREBAY_TEST_LONG=1."""
    return list(values) if LONG else sorted(Random(seed_of(name)).sample(values, count), key=values.index)
