"""The demo's program is a correct solver of the wave equation, and an ordinary HDF5 program."""

import json
import math
import subprocess
import sys

import h5py
import numpy as np
import pytest

from forebay import simulation
from forebay.program import SIMULATION, native_environment

FREQUENCY = math.sqrt(3.0) * math.pi


def standing_mode(points):
    """sin(pi x) sin(pi y) sin(pi z); times cos(sqrt(3) pi t) it solves the wave equation exactly."""
    along = np.sin(np.pi * np.linspace(0.0, 1.0, points))
    return np.einsum("i,j,k->ijk", along, along, along)


def error_at(points, end):
    mode = standing_mode(points)
    wave = simulation.Wave(mode)
    wave.advance(round(end / wave.time_step))
    assert wave.time == pytest.approx(end)
    return np.abs(wave.displacement - mode * math.cos(FREQUENCY * end)).max()


def energy(wave):
    """The energy that the leapfrog conserves: 1/2 |u_t|² + 1/2 <grad u(t), grad u(t - dt)>, without the factor h³."""
    velocity = wave.velocity(np.empty_like(wave.displacement))
    before = wave.displacement - wave.time_step * velocity
    potential = (
        sum(np.vdot(np.diff(wave.displacement, axis=axis), np.diff(before, axis=axis)) for axis in range(3))
        / wave.spacing**2
    )
    return 0.5 * (np.vdot(velocity, velocity) + potential)


def test_the_error_against_a_standing_wave_is_of_second_order():
    coarse, middle, fine = (error_at(points, 0.75) for points in (9, 17, 33))
    assert fine < 5e-4
    assert math.log2(coarse / middle) == pytest.approx(2.0, abs=0.05)
    assert math.log2(middle / fine) == pytest.approx(2.0, abs=0.05)


def test_the_velocity_is_that_of_the_standing_wave_half_a_step_earlier():
    points = 33
    mode = standing_mode(points)
    wave = simulation.Wave(mode)
    wave.advance(20)
    time = wave.time - wave.time_step / 2
    exact = -FREQUENCY * math.sin(FREQUENCY * time) * mode
    assert np.abs(wave.velocity(np.empty_like(mode)) - exact).max() < 5e-3


def test_energy_is_conserved_and_the_scheme_is_stable_over_a_thousand_steps():
    wave = simulation.Wave(simulation.two_pulses(24))
    wave.advance(1)
    at_begin = energy(wave)
    wave.advance(1000)
    assert energy(wave) == pytest.approx(at_begin, rel=1e-10)
    assert np.abs(wave.displacement).max() < 2.0


def test_the_faces_stay_at_zero():
    wave = simulation.Wave(np.ones((12, 12, 12)))
    wave.advance(7)
    inner = np.zeros_like(wave.displacement)
    inner[1:-1, 1:-1, 1:-1] = wave.displacement[1:-1, 1:-1, 1:-1]
    assert np.array_equal(wave.displacement, inner)
    assert np.abs(inner).max() > 0.0


@pytest.mark.parametrize("slab_bytes", [1, 3000, 1 << 30])
def test_the_result_does_not_depend_on_the_size_of_a_slab(monkeypatch, slab_bytes):
    expected = simulation.Wave(simulation.two_pulses(20))
    monkeypatch.setattr(simulation, "CACHE_BYTES", slab_bytes)
    sliced = simulation.Wave(simulation.two_pulses(20))
    for wave in (expected, sliced):
        wave.advance(15)
    assert np.array_equal(expected.displacement, sliced.displacement)


def test_a_state_that_is_not_a_cube_is_refused():
    with pytest.raises(ValueError, match="cube"):
        simulation.Wave(np.zeros((4, 4, 5)))


def test_the_program_imports_h5py_and_nothing_of_forebay():
    source = SIMULATION.read_text(encoding="utf-8")
    assert "import h5py" in source
    assert "forebay" not in source


def test_the_program_writes_what_it_computes_and_reports_every_phase(tmp_path):
    file = tmp_path / "wave.h5"
    command = [
        sys.executable,
        str(SIMULATION),
        "--output",
        str(file),
        "--size",
        "16",
        "--steps",
        "3",
        "--substeps",
        "4",
    ]
    ended = subprocess.run(command, env=native_environment(), capture_output=True, text=True, check=True, timeout=120)

    wave = simulation.Wave(simulation.two_pulses(16))
    with h5py.File(file, "r") as written:
        assert sorted(written["checkpoint"]) == ["0000", "0001", "0002"]
        for checkpoint in range(3):
            wave.advance(4)
            group = written[f"checkpoint/{checkpoint:04d}"]
            assert group.attrs["time"] == pytest.approx(wave.time)
            assert group.attrs["steps"] == wave.steps
            assert np.array_equal(group["displacement"][()], wave.displacement)
            assert np.array_equal(group["velocity"][()], wave.velocity(np.empty_like(wave.displacement)))

    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    phases = [line for line in lines if "phase" in line]
    assert [phase["phase"] for phase in phases] == ["open", *["compute", "write", "flush"] * 3, "close"]
    for earlier, later in zip(phases, phases[1:], strict=False):
        assert earlier["begin_ns"] <= earlier["end_ns"] <= later["begin_ns"]
