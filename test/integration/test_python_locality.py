"""forebay.torch.LocalitySampler: the global batches of a plain shuffle, dealt to the ranks by where the samples are."""

import subprocess
import sys

import pytest

import forebay
from forebay.torch import LocalitySampler


def ranks_of(length, replicas, epoch=0, **more):
    """One sampler for each rank, at that epoch."""
    samplers = [LocalitySampler(range(length), replicas, rank, **more) for rank in range(replicas)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    return samplers


def steps_of(samplers, size):
    """For each step what each rank gets."""
    parts = [list(sampler) for sampler in samplers]
    assert [len(part) for part in parts] == [len(sampler) for sampler in samplers]
    return [[part[at : at + size] for part in parts] for at in range(0, len(parts[0]), size)]


def padded(order, total):
    """As DistributedSampler fills up an order that the ranks do not divide."""
    return (order * (total // max(1, len(order)) + 1))[:total]


SHAPES = [
    (1000, 4, 16, 1),
    (1000, 4, 16, 2),
    (1003, 6, 10, 4),
    (37, 8, 3, 2),
    (5, 8, 2, 4),
    (64, 1, 7, 1),
    (0, 3, 2, 1),
]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_global_batches_are_those_of_the_plain_shuffle(shape, drop_last):
    length, replicas, size, per_node = shape
    for epoch in (0, 3):
        more = {"batch_size": size, "ranks_per_node": per_node, "seed": 5, "drop_last": drop_last}
        samplers = ranks_of(length, replicas, epoch, **more)
        total = samplers[0].total_size
        assert total == (length // replicas if drop_last else -(-length // replicas)) * replicas
        order = padded(forebay.epoch_order(length, 5, epoch), total)
        steps = steps_of(samplers, size)
        for number, parts in enumerate(steps):
            batch = order[number * size * replicas : (number + 1) * size * replicas]
            assert sorted(sum(parts, [])) == sorted(batch)
            assert len({len(part) for part in parts}) == 1, "each rank gets as many"
        seen = [sample for parts in steps for part in parts for sample in part]
        if length % replicas == 0:
            assert sorted(seen) == list(range(length)), "each sample once"
        elif drop_last:
            assert len(set(seen)) == len(seen)
        else:
            assert set(seen) == set(range(length))


def test_epochs_and_seeds_have_orders_of_their_own_and_repeat_them():
    def part(epoch, seed):
        return list(ranks_of(400, 4, epoch, batch_size=10, seed=seed)[1])

    assert part(1, 7) == part(1, 7)
    assert len({tuple(part(epoch, seed)) for epoch in (0, 1) for seed in (0, 9)}) == 4
    plain = ranks_of(400, 4, batch_size=10, shuffle=False)
    assert sorted(sum((list(one)[:10] for one in plain), [])) == list(range(40))


def share_away(samplers, node_of):
    count = away = 0
    for sampler in samplers:
        for sample in sampler:
            count += 1
            away += node_of(sample) != sampler.rank // sampler.ranks_per_node
    return away / count


def test_few_samples_come_from_another_node():
    length = 4 * 64 * 40
    assert share_away(ranks_of(length, 4, 2, batch_size=64), lambda sample: sample * 4 // length) <= 0.08
    eight = ranks_of(length, 8, 2, batch_size=64, ranks_per_node=2)
    assert share_away(eight, lambda sample: sample * 4 // length) <= 0.08
    for owner in (lambda sample: sample % 4, [sample % 4 for sample in range(length)]):
        assert share_away(ranks_of(length, 4, batch_size=64, owner=owner), lambda sample: sample % 4) <= 0.08
    by_chance = ranks_of(length, 4, batch_size=64, owner=lambda sample: -1)
    assert 0.7 < share_away(by_chance, lambda sample: sample * 4 // length) < 0.8


def test_a_node_that_holds_everything_shares_it_evenly():
    steps = steps_of(ranks_of(300, 3, batch_size=10, owner=lambda sample: 0), 10)
    assert all(len(part) == 10 for parts in steps for part in parts)
    assert sorted(sum((part for parts in steps for part in parts), [])) == list(range(300))


def test_samples_come_at_each_step_equally_often():
    """Pearson's statistic over 40 epochs: where in the epoch a node's samples come, and which of them leave it."""
    length, epochs, size = 640, 40, 8
    steps = length // (4 * size)
    count = [[0] * steps for _ in range(4)]
    left = [0] * length
    for epoch in range(epochs):
        for number, parts in enumerate(steps_of(ranks_of(length, 4, epoch, batch_size=size, seed=11), size)):
            for rank, part in enumerate(parts):
                for sample in part:
                    count[sample * 4 // length][number] += 1
                    left[sample] += sample * 4 // length != rank
    expected = epochs * size
    for of_node in count:  # 19 degrees of freedom: above 43.8 in one of 1,000 cases
        assert sum((seen - expected) ** 2 / expected for seen in of_node) < 43.8
    mean = sum(left) / length
    spread = sum((times - mean) ** 2 for times in left) / length
    assert spread < 2 * mean, "no sample is moved much more often than others"


def test_ranks_come_from_the_environment_and_mistakes_are_told(monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="not initialised"):
        LocalitySampler(range(10), batch_size=2)
    for name, value in (("WORLD_SIZE", "6"), ("RANK", "4"), ("LOCAL_WORLD_SIZE", "3")):
        monkeypatch.setenv(name, value)
    sampler = LocalitySampler(range(60), batch_size=2)
    assert (sampler.num_replicas, sampler.rank, sampler.nodes, len(sampler)) == (6, 4, 2, 10)
    for wrong in ({"rank": 6}, {"batch_size": 0}, {"ranks_per_node": 0}, {"owner": [0]}):
        with pytest.raises(ValueError):
            LocalitySampler(range(60), **{"batch_size": 2, **wrong})


def test_it_imports_no_framework():
    code = "import sys, forebay.torch; list(forebay.torch.LocalitySampler(range(9), 3, 1, batch_size=1)); "
    code += "assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
