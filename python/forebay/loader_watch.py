"""Learns from h5py's reads which rows each item of a data set needs, and prefetches the rows of the next items.

A `Watch` belongs to one data set in one process. It sees each read that h5py makes during a fetch, learns the rule from
item to rows, and asks the read cache for the rows of the next items. The first read that breaks the rule ends the
watch.
"""

from __future__ import annotations

import errno
import functools
import math
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from forebay.byte_ranges import ByteRanges, Range
from forebay.plugin import Plugin, loaded_plugins
from forebay.prefetching import ask, why_uncached
from forebay.row_rules import Key, Misfit, Read, RowRules, read_of

WAITING_MAX = 1 << 16  # noted items without a request yet
CHUNKS_MAX = 1 << 18  # maximum of one dataset, as the watch keeps a table of its chunks
_SUBSETS_MAX = 8
_DRY_MIN = 2  # requests that fetched nothing before a watch rests
_REST_MIN, _REST_MAX = 8, 1024  # fetches

# Counters of this process: epochs followed, items prefetched, pauses, errors, and the reasons why following ended.
counts: Counter[str] = Counter()

_now = threading.local()


class Watch:
    """Observes the fetches of one data set. Not thread-safe."""

    def __init__(self) -> None:
        self.ended = False
        self._rules = RowRules()
        self._waiting: deque[int] = deque(maxlen=WAITING_MAX)
        self._layouts: dict[Key, ByteRanges | None] = {}  # None: no range is known
        self._plugins: list[Plugin] | None = None
        self._supply = _Supply()
        # State of the current fetch:
        self._dataset: Any = None
        self._item: int | None = None
        self._reads: list[Read] = []
        self._seen: dict[Key, Any] = {}

    def expect(self, items: list[int]) -> None:
        """Notes the next items, in the order of their fetches."""
        if not self.ended:
            self._waiting.extend(items)

    def fetch(self, fetch: Callable[[Any, Any], Any], fetcher: Any, index: Any) -> Any:
        """Calls ``fetch(fetcher, index)`` and notes the reads. Returns its result, and raises what it raises."""
        try:
            if self._supply.rests():
                self._waiting.clear()
                given = None
            else:
                given = self._begin(fetcher, index)
        except Exception:
            self.end("error")
            given = None
        if given is None:
            return fetch(fetcher, index)
        before = getattr(_now, "watch", None)
        _now.watch = self
        try:
            result = fetch(fetcher, given)
        finally:
            _now.watch = before
            self._dataset = None
        try:
            if not self.ended:
                self._settle(index, fetcher.dataset)
        except Misfit:
            self.end("misfit")
        except Exception:
            self.end("error")
        finally:
            self._reads, self._seen = [], {}
        return result

    def _begin(self, fetcher: Any, index: Any) -> Any:
        """Returns what the fetcher gets in the place of `index`."""
        watch_reads()
        self._dataset, self._item = fetcher.dataset, None
        self._reads, self._seen = [], {}
        if not fetcher.auto_collation:
            self._item = index
        elif type(index) is list and _reads_singly(fetcher.dataset):
            return _Steps(index, self._step)
        return index

    def see(self, dataset: Any, arguments: Any) -> None:
        """Notes a read of an h5py.Dataset that has succeeded."""
        if self.ended:
            return
        try:
            h5py: Any = sys.modules["h5py"]
            key = (h5py.h5f.get_name(dataset.id), h5py.h5i.get_name(dataset.id))
            shape = dataset.shape
            if shape and None not in key and (read := read_of(key, shape[0], arguments)) is not None:
                self._reads.append(read)
                self._seen.setdefault(key, dataset)
        except Misfit:
            self.end("misfit")
        except Exception:
            self.end("error")

    def end(self, why: str) -> None:
        """Ends the watch permanently, and releases its memory."""
        counts[f"ended: {why}"] += 1
        self.ended = True
        self._waiting.clear()
        self._layouts.clear()
        self._rules = RowRules()

    def _step(self, item: Any) -> None:
        """Called before each item that is fetched singly."""
        if self.ended:
            return
        try:
            if self._item is not None:
                self._note_item()
            self._item = item
        except Misfit:
            self.end("misfit")
        except Exception:
            self.end("error")

    def _note_item(self) -> None:
        assert self._item is not None
        reads, self._reads = self._reads, []
        self._rules.note(inner_item(self._dataset, self._item), reads)

    def _settle(self, index: Any, dataset: Any) -> None:
        self._dataset = dataset
        if self._item is not None:
            self._note_item()
        elif self._reads:
            self._rules.note_batch([inner_item(dataset, item) for item in index], self._reads)
        if self._rules.known and self._waiting:
            if self._plugins is None:
                self._plugins = loaded_plugins()
            if self._plugins:
                self._look_up(self._plugins)
            else:
                self.end("not enabled")
            if not self.ended:
                self._ask([inner_item(dataset, item) for item in self._waiting], self._plugins)
                self._waiting.clear()
        self._dataset = None

    def _look_up(self, plugins: list[Plugin]) -> None:
        """Notes the layouts of cached datasets. A question for addresses would end the staging of a staged file."""
        uncached = set()
        for key, dataset in self._seen.items():
            if key in self._layouts:
                continue
            refusal = why_uncached(plugins, os.path.abspath(key[0]))
            if refusal == 0:
                self._layouts[key] = _layout(dataset)
            elif refusal == errno.ENOTSUP:
                self._layouts[key] = None
                uncached.add(key[0])
        for name in uncached:
            self._leave_alone(name)

    def _ask(self, items: list[int], plugins: list[Plugin]) -> None:
        ranges: dict[bytes, list[Range]] = {}
        for item in items:
            for key, row in self._rules.rows_of(item):
                layout = self._layouts.get(key)
                if layout is not None and (places := layout.read_for(self._rules.selection(key, row))):
                    ranges.setdefault(key[0], []).extend(places)
        accepted = False
        for name, places in ranges.items():
            refusal = ask(plugins, os.path.abspath(name), places)
            accepted = accepted or refusal == 0
            if refusal == errno.ENOTSUP:
                self._leave_alone(name)
            elif refusal not in (0, errno.EAGAIN, errno.ENOENT):  # too many ranges wait; file closed
                self.end("refused")
                return
        if accepted:
            counts["items"] += len(items)
            self._supply.judge(plugins, ranges)

    def _leave_alone(self, name: bytes) -> None:
        """Ignores a file that is not cached, for example because it is local."""
        for key in self._layouts:
            if key[0] == name:
                self._layouts[key] = None
        if all(layout is None for layout in self._layouts.values()):
            self.end("not cached")


class _Supply:
    """Pauses prefetching while the node already holds all requested rows, as in a second epoch.

    After two requests that fetched nothing the watch skips 8 fetches, then 16, and so on up to 1024. A request that
    fetches bytes resets the pause to 8.
    """

    def __init__(self) -> None:
        self._fetched: int | None = None  # bytes of files that this process's cache has fetched
        self._dry = 0
        self._rest, self._left = _REST_MIN, 0

    def rests(self) -> bool:
        """Returns True if the watch skips the next fetch. Call it once per fetch."""
        self._left -= self._left > 0
        return self._left > 0

    def judge(self, plugins: list[Plugin], asked: Iterable[bytes]) -> None:
        """Called after a request for these files."""
        caches = [plugin.statistics().get("cache") or {} for plugin in plugins]
        before, self._fetched = self._fetched, sum(int(cache.get("fetched_bytes", 0)) for cache in caches)
        if not any("fetched_bytes" in cache for cache in caches) or before is None:
            return
        if self._fetched != before:
            self._dry, self._rest = 0, _REST_MIN
            return
        if any(plugin.prefetch_left(os.path.abspath(name)) for name in asked for plugin in plugins):
            return  # the file system is slow, and a fetch is in flight
        self._dry += 1
        if self._dry >= _DRY_MIN:
            self._left, self._rest = self._rest, min(2 * self._rest, _REST_MAX)
            counts["rests"] += 1


class _Steps(list[Any]):
    """The items of a batch. Iterating over the list calls `step` with each item before it is fetched."""

    def __init__(self, items: list[Any], step: Callable[[Any], None]) -> None:
        super().__init__(items)
        self._step = step

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self._step(item)
            yield item


def inner_item(dataset: Any, item: Any) -> int:
    """Returns the item behind an item of PyTorch's Subset. The items of other data sets stay unchanged."""
    subset = sys.modules["torch.utils.data"].Subset
    for _ in range(_SUBSETS_MAX):
        if type(dataset) is not subset:
            break
        item, dataset = dataset.indices[item], dataset.dataset
    return int(item)


def _reads_singly(dataset: Any) -> bool:
    """Returns True if PyTorch's own code iterates over the items of a batch, so that another kind of list is safe."""
    if type(dataset) is sys.modules["torch.utils.data"].Subset:
        dataset = dataset.dataset  # if it takes batches, they exist before the first read
    return not getattr(dataset, "__getitems__", None)


def _layout(dataset: Any) -> ByteRanges | None:
    """Returns the dataset's byte ranges; None if it is virtual or external, closed, or has too many chunks."""
    if not dataset.id.valid:
        return None
    if dataset.chunks and math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks)) > CHUNKS_MAX:
        return None
    try:
        layout = ByteRanges(dataset)
    except ValueError:
        return None
    layout.detach()
    return layout


def watch_reads() -> None:
    """Wraps h5py's reads so that watches see them. Does nothing until h5py is imported."""
    h5py: Any = sys.modules.get("h5py")
    kind = getattr(h5py, "Dataset", None)
    if kind is None or hasattr(kind.__getitem__, "forebay_sees"):
        return
    get, read_direct = kind.__getitem__, kind.read_direct

    @functools.wraps(get)
    def __getitem__(self: Any, *arguments: Any, **named: Any) -> Any:
        result = get(self, *arguments, **named)
        watch = getattr(_now, "watch", None)
        if watch is not None:
            watch.see(self, arguments[0] if arguments else ())
        return result

    @functools.wraps(read_direct)
    def read_directly(self: Any, dest: Any, source_sel: Any = None, dest_sel: Any = None) -> Any:
        result = read_direct(self, dest, source_sel, dest_sel)
        watch = getattr(_now, "watch", None)
        if watch is not None:
            # A watch understands tuples (numpy.s_). Selection objects such as h5py.MultiBlockSlice end it.
            watch.see(self, () if source_sel is None else source_sel)
        return result

    __getitem__.forebay_sees = True  # type: ignore[attr-defined]
    kind.__getitem__, kind.read_direct = __getitem__, read_directly
