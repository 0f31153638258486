"""A parallel h5py program as people write them: python parallel_h5py.py write | check, in the folder of its file.

Every rank prints what it saw, one line per fact; the lines are the same natively and staged. `check` reads the file
alone and fails unless every element is what its writer meant.
"""

import sys

import h5py
import numpy

NAME = "parallel.h5"
RANKS, ROWS, COLUMNS, STEPS = 2, 64, 1000, 5  # ROWS of each rank


def block(rank: int, step: int, dtype: str = "f8") -> numpy.ndarray:
    """What a rank writes at a step: no two elements alike."""
    first = (step * RANKS + rank) * ROWS * COLUMNS
    return numpy.arange(first, first + ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(dtype)


def write() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    assert world.size == RANKS
    mine = slice(world.rank * ROWS, (world.rank + 1) * ROWS)
    other = (world.rank + 1) % RANKS
    others = slice(other * ROWS, (other + 1) * ROWS)
    told = []
    with h5py.File(NAME, "w", driver="mpio", comm=world) as file:
        plain = file.create_dataset("plain", (RANKS * ROWS, COLUMNS), "f8")
        packed = file.create_dataset(
            "packed", (RANKS * ROWS, COLUMNS), "i8", chunks=(ROWS // 2, 250), compression="gzip", shuffle=True
        )
        grown = file.create_dataset(
            "grown", (0, RANKS * ROWS, COLUMNS), "f4", maxshape=(None, RANKS * ROWS, COLUMNS), chunks=(1, ROWS, COLUMNS)
        )
        scattered = file.create_dataset("scattered", (COLUMNS, RANKS), "i4", fillvalue=-1)
        for step in range(STEPS):
            plain[mine] = block(world.rank, step)
            with packed.collective:
                packed[mine] = block(world.rank, step, "i8")
            grown.resize(step + 1, axis=0)
            with grown.collective:
                grown[step, mine] = block(world.rank, step, "f4")
            world.Barrier()
            told.append(
                f"step {step}: {numpy.array_equal(plain[others], block(other, step))} "
                f"{float(grown[step, others].sum())}"
            )
            world.Barrier()
        scattered[::2, world.rank] = numpy.arange(COLUMNS // 2)
        file.attrs["steps"] = STEPS
        group = file.create_group("state")
        group.attrs["name"] = "a state"
        file.flush()
        world.Barrier()
        told.append(f"scattered: {int(scattered[:, other].sum())}")
    with h5py.File(NAME, "r+", driver="mpio", comm=world) as file:
        file["plain"][mine] = file["plain"][mine] + 1
        del file["state"]
        again = file.create_dataset("again", (RANKS,), "i4")
        again[world.rank] = world.rank
        told.append(f"names: {sorted(file)}")
    with h5py.File(NAME, "r", driver="mpio", comm=world) as file:
        told.append(
            f"read: {float(file['plain'][others].sum())} {int(file['packed'][...].sum())} {list(file['again'][...])}"
        )
    told.append(f"alone: {write_alone(world.rank)}")
    sys.stdout.write("".join(f"rank {world.rank} {line}\n" for line in told))


def write_alone(rank: int) -> list[int]:
    """A serial file of every rank, while the program has MPI."""
    with h5py.File(f"alone-{rank}.h5", "w") as file:
        file["numbers"] = numpy.arange(1000) * (rank + 1)
        return [int(file["numbers"][...].sum()), len(file)]


def check() -> None:
    last = [block(rank, STEPS - 1) for rank in range(RANKS)]
    with h5py.File(NAME, "r") as file:
        assert sorted(file) == ["again", "grown", "packed", "plain", "scattered"] and file.attrs["steps"] == STEPS
        assert numpy.array_equal(file["plain"][...], numpy.concatenate(last) + 1)
        assert numpy.array_equal(file["packed"][...], numpy.concatenate(last))
        for step in range(STEPS):
            assert numpy.array_equal(
                file["grown"][step], numpy.concatenate([block(rank, step, "f4") for rank in range(RANKS)])
            )
        assert numpy.array_equal(file["scattered"][::2], numpy.stack([numpy.arange(COLUMNS // 2)] * RANKS, axis=1))
        assert (file["scattered"][1::2] == -1).all()
        assert list(file["again"][...]) == list(range(RANKS))
    for rank in range(RANKS):
        with h5py.File(f"alone-{rank}.h5", "r") as file:
            assert numpy.array_equal(file["numbers"][...], numpy.arange(1000) * (rank + 1))


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]]()
