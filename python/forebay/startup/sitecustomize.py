"""Python imports this module at its start in programs under `forebay run`, whose PYTHONPATH has this folder.

The module waits for the import of PyTorch's DataLoader, and then installs `forebay.loader_hook`. It imports neither
PyTorch nor forebay before. A `sitecustomize` of the user or of the distribution runs as before, and this folder leaves
`sys.path` at once. Any Python 3 may import this module; following needs 3.9.
"""

import os
import sys
from importlib.machinery import PathFinder

FOLDER = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(FOLDER)
AWAITED = "torch.utils.data"


class _Waiting:
    """A module finder that finds no module itself. It lets the others find AWAITED, and acts after that import."""

    def find_spec(self, name, path=None, target=None):
        if name != AWAITED:
            return None
        import importlib.util  # takes milliseconds, which most programs need not spend

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            _run_behind(spec.loader)
        return spec


def _run_behind(loader):
    execute = loader.exec_module

    def exec_module(module):
        execute(module)
        del loader.exec_module
        try:
            _forebay("loader_hook").install()
        except Exception:  # following is optional: the program continues without it
            pass

    loader.exec_module = exec_module


def _forebay(module):
    """Returns a module of the package that this folder belongs to, from any place."""
    import importlib.util

    if "forebay" not in sys.modules:
        place = os.path.join(PACKAGE, "__init__.py")
        spec = importlib.util.spec_from_file_location("forebay", place, submodule_search_locations=[PACKAGE])
        package = importlib.util.module_from_spec(spec)
        sys.modules["forebay"] = package
        try:
            spec.loader.exec_module(package)
        except BaseException:
            del sys.modules["forebay"]
            raise
    return importlib.import_module("forebay." + module)


def _is_this_folder(entry):
    return bool(entry) and os.path.abspath(entry) == FOLDER


def _import_the_next():
    """Imports the `sitecustomize` that this one hides. Raises ImportError if there is none, as Python expects."""
    sys.path[:] = [entry for entry in sys.path if not _is_this_folder(entry)]
    spec = PathFinder.find_spec(__name__, sys.path)
    if spec is None or spec.loader is None:
        raise ImportError("there is no other sitecustomize", name=__name__)
    import importlib.util

    module = importlib.util.module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)


if sys.version_info >= (3, 9) and os.environ.get("FOREBAY_FOLLOW", "").strip().lower() not in (
    "off",
    "no",
    "false",
    "0",
):
    if AWAITED not in sys.modules:
        sys.meta_path.insert(0, _Waiting())
_import_the_next()
