import pytest
from forebay.slowfs import SlowFS
from server_environment import Server
from two_machines import Machines


@pytest.fixture
def target(tmp_path):
    """A slowfs mount, for files that several machines see; beside it a folder for their program."""
    for folder in ("backing", "target", "client"):
        (tmp_path / folder).mkdir()
    with SlowFS(tmp_path / "backing", tmp_path / "target"):
        yield tmp_path / "target"


@pytest.fixture
def machines(target, tmp_path):
    """Two machines; they see what is mounted before they are made, as `target` is."""
    with Machines(tmp_path) as two:
        yield two


@pytest.fixture
def server(machines, tmp_path):
    """A staging server on the first of them."""
    with Server(tmp_path / "server", f"{machines.address}:0", on=machines.first) as running:
        yield running
