"""PyTables' own tests come out the same natively and through the connector.

The stock wheel brings its own libhdf5. With Blosc2 PyTables reads around HDF5. It asks HDF5 where the chunks are, and
reads the file by its path.
"""

import os
import re
import sys

import pytest
from connector_environment import bytes_staged, native, reasons, run, staged

pytestmark = pytest.mark.slow

pytest.importorskip("tables")
LONG = os.environ.get("FOREBAY_TEST_LONG") == "1"
# Those that read around HDF5, and those that look at the size of the file.
AROUND = [
    *(
        f"tables.tests.test_carray.{name}"
        for name in (
            "Blosc2ComprTestCase",
            "Blosc2FletcherTestCase",
            "Blosc2CrossChunkTestCase",
            "Blosc2CrossChunkOptTestCase",
            "Blosc2PastLastChunkTestCase",
            "Blosc2PastLastChunkOptTestCase",
            "Blosc2Ndim3MinChunkOptTestCase",
            "Blosc2Ndim3ChunkOptTestCase",
            "Blosc2Ndim4ChunkOptTestCase",
            "Blosc2NDNoChunkshape",
            "SizeOnDiskInMemoryPropertyTestCase",
        )
    ),
    *(
        f"tables.tests.test_earray.{name}"
        for name in (
            "Blosc2SlicesOptEArrayTestCase",
            "Blosc2CrossChunkOptTestCase",
            "Blosc2InnerCrossChunkOptTestCase",
            "SizeOnDiskInMemoryPropertyTestCase",
        )
    ),
    "tables.tests.test_tables.CompressBlosc2TablesTestCase",
    "tables.tests.test_tables.SizeOnDiskInMemoryPropertyTestCase",
    "tables.tests.test_direct_chunk.CArrayDirectChunkingTestCase",
    "tables.tests.test_direct_chunk.TableDirectChunkingTestCase",
]


def outcomes(environment: dict[str, str], folder, tests: list[str], seconds_max: float) -> list[str]:
    done = run([sys.executable, "-m", "unittest", "-v", *tests], environment, folder, seconds_max)
    ended = re.findall(
        r"^(test\w* \(tables\.[\w.]+\)).*?\.\.\. (ok|FAIL|ERROR|skipped|expected failure)",
        done.stderr,
        re.DOTALL | re.MULTILINE,
    )
    assert ended and "\nRan " in done.stderr, done.stdout + done.stderr
    return sorted(f"{name}: {how}" for name, how in ended)


def compared(tests: list[str], seconds_max: float, tmp_path) -> list[str]:
    plain = outcomes(native(), tmp_path / "native", tests, seconds_max)
    through = outcomes(staged(tmp_path), tmp_path / "through", tests, seconds_max)
    assert [one for one in through if one not in set(plain)] == []
    assert plain == through
    assert bytes_staged(tmp_path) > 0
    assert "address_given" in reasons(tmp_path)
    return through


def test_pytables_tests_that_read_around_hdf5_come_out_the_same(tmp_path):
    assert sum(one.endswith(": ok") for one in compared(AROUND, 200, tmp_path)) > 50


@pytest.mark.skipif(not LONG, reason="minutes; set FOREBAY_TEST_LONG=1")
@pytest.mark.timeout(3600)
def test_all_pytables_tests_come_out_the_same(tmp_path):
    assert sum(one.endswith(": ok") for one in compared(["tables.tests.test_suite.suite"], 1700, tmp_path)) > 1400
