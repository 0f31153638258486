"""The bar that a notebook shows while a prefetch is waited for."""

import sys
import types

import pytest
from forebay.notebook_bar import NotebookBar


class Notebook:
    """Stands in for IPython: keeps what was shown, and each change of it."""

    def __init__(self, kernel):
        self.kernel, self.shown, self.asked_for_id = kernel, [], None

    def display(self, thing, display_id):
        self.asked_for_id = display_id
        self.shown.append(thing._repr_html_())
        return self

    def update(self, thing):
        self.shown.append(thing._repr_html_())


@pytest.fixture
def run_in(monkeypatch):
    def put(shell):
        package, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        package.get_ipython = lambda: shell
        display.display = getattr(shell, "display", None)
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    return put


def test_moves_in_place(run_in):
    notebook = Notebook(kernel=object())
    run_in(notebook)
    bar = NotebookBar("Prefetching a<b.h5", 4 << 20)
    bar.move_to(1 << 20)
    bar.move_to(0)
    assert notebook.asked_for_id is True and len(notebook.shown) == 3
    assert all("a&lt;b.h5" in shown for shown in notebook.shown)
    assert "value='0'" in notebook.shown[0]
    assert f"max='{4 << 20}' value='{3 << 20}'" in notebook.shown[1] and "3.0 MiB of 4.0 MiB" in notebook.shown[1]
    assert f"value='{4 << 20}'" in notebook.shown[2]
    assert repr(bar) == "Prefetching a<b.h5: 100 %"


def test_grows_if_more_is_asked_for_meanwhile(run_in):
    notebook = Notebook(kernel=object())
    run_in(notebook)
    NotebookBar("x", 100).move_to(300)
    assert "max='300' value='0'" in notebook.shown[-1]


@pytest.mark.parametrize("shell", [None, Notebook(kernel=None)], ids=["no IPython at work", "IPython in a terminal"])
def test_shows_nothing_outside_of_a_notebook(run_in, shell):
    run_in(shell)
    bar = NotebookBar("x", 100)
    bar.move_to(50)
    assert shell is None or shell.shown == []


def test_needs_no_ipython(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    NotebookBar("x", 0).move_to(0)
