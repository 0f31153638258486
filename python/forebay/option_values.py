"""Checks options before `enable` sets any: names and values, against the command's own table.

The module converts a value to the text of an environment variable. Paths become absolute, as with ``forebay run -o``.
"""

from __future__ import annotations

import difflib
import operator
import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from forebay.hdf5_library import CannotEnable
from forebay.options import ALLOWED

_YES, _NO = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
_BLANKS = " \t\r\n"
_UNITS = "kmgt"  # users may write these; the table has larger ones
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_SECONDS_MAX = 9e9  # maximum that 64 bits hold in nanoseconds
_DIRECTORIES, _FILES = ("nls", "registry"), ("stats", "trace")
_DEVICES_MAX = 8
_ESCAPED = re.compile(r"\\([:=\\])")  # of option nls


class WrongOption(CannotEnable, ValueError):
    """An option is unknown or does not accept the value. The message names the option and the allowed values."""


def texts_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Returns the options as text. Raises WrongOption for the first invalid one. Checks that the named paths exist."""
    return {name: _text_of(name, value) for name, value in options.items()}


def _text_of(name: str, value: Any) -> str:
    if name not in ALLOWED:
        near = difflib.get_close_matches(name, ALLOWED, n=1)
        hint = f"did you mean {near[0]}?" if near else "see docs/options.md"
        raise WrongOption(f"option {name}: no such option; {hint}")
    if isinstance(value, bool):
        text = "on" if value else "off"
    elif isinstance(value, os.PathLike) and name == "nls":
        text = _escaped(os.fsdecode(value))
    elif isinstance(value, (str, os.PathLike)):
        text = os.fsdecode(value)
    elif hasattr(value, "__index__"):  # NumPy's numbers, too
        text = str(operator.index(value))
    else:
        raise WrongOption(f"option {name}={value!r}: a {type(value).__name__} is no value; allowed: {ALLOWED[name]}")
    fault = _fault_of(name, text)
    if fault:
        raise WrongOption(f"option {name}={text}: {fault}")
    if name == "nls":
        return ":".join(_absolute_device(device) for device in _devices_of(text)) if text else text
    return os.path.abspath(text) if ALLOWED[name] == "a path" and text else text


def _devices_of(text: str) -> list[str]:
    """Splits option nls into directories, each with its size. An unescaped colon before a slash separates two."""
    return re.split(r"(?<!\\):(?=/)", re.sub(r"\\\\", "\0", text))


def _path_and_size(device: str) -> tuple[str, str | None]:
    """Splits an element of `_devices_of`. The size is None if there is none."""
    found = re.fullmatch(r"(.*)(?<!\\)=([^/]*)", device, re.DOTALL)
    path, size = (found[1], found[2]) if found else (device, None)
    return _ESCAPED.sub(r"\1", path).replace("\0", "\\"), size


def _escaped(path: str) -> str:
    head, tail = os.path.split(path.replace("\\", "\\\\"))
    return re.sub(r":(?=/)", r"\\:", os.path.join(head, tail.replace("=", "\\=")))


def _absolute_device(device: str) -> str:
    path, size = _path_and_size(device)
    return _escaped(os.path.abspath(path)) + ("" if size is None else f"={size}")


def _fault_of_devices(text: str) -> str:
    devices = [_path_and_size(device) for device in _devices_of(text)]
    if len(devices) > _DEVICES_MAX:
        return f"{len(devices)} directories; at most {_DEVICES_MAX} are allowed"
    for number, (path, size) in enumerate(devices):
        if path in (other for other, _ in devices[:number]):
            return f"{path} is named twice"
        if size is not None and not 1 << 20 <= (_bytes_of(size.lower()) or 0) <= 1 << 50:
            return f"'{size}' after {path} is not a size; allowed: 1 MiB to 1 PiB. In a path, write \\= for ="
        if fault := _fault_of_path("nls", path):
            return fault
    return ""


def _fault_of(name: str, text: str) -> str:
    """Returns why the option does not accept this text, or an empty text."""
    allowed = ALLOWED[name]
    word = text.strip(_BLANKS).lower()
    if "\0" in text:
        return "contains a zero byte"
    if allowed == "any text":
        return ""
    if name == "nls" and text:
        return _fault_of_devices(text)
    if allowed == "a path":
        return _fault_of_path(name, text)
    if allowed.startswith("a duration"):
        return "" if _is_job_end(text.strip(_BLANKS)) else f"neither a duration nor a time; allowed: {allowed}"
    if allowed == "on or off":
        return "" if word in (*_YES, *_NO) else f"neither on nor off; allowed: {allowed}"
    if number := re.fullmatch(r"(?:(.+) or )?(\d+) to (\d+)", allowed):
        if number[1] and word in number[1].split(" or "):
            return ""
        if not re.fullmatch("[0-9]+", word):
            return f"not a whole number; allowed: {allowed}"
        return _fault_of_number(int(word), int(number[2]), int(number[3]), allowed)
    if size := re.fullmatch(r"(\d+ \w+) to (\d+ \w+)", allowed):
        least, most = (_bytes_of(bound.lower(), _UNITS + "pe") for bound in size.groups())
        assert least is not None and most is not None
        given = _bytes_of(word)
        return f"not a size; allowed: {allowed}" if given is None else _fault_of_number(given, least, most, allowed)
    choices = allowed.split(" or ")
    switched = "on" if word in _YES else "off" if word in _NO else ""  # other words for values of a choice
    return "" if word in choices or switched in choices else f"unknown choice; allowed: {allowed}"


def _fault_of_number(number: int, least: int, most: int, allowed: str) -> str:
    return "" if least <= number <= most else f"too {'small' if number < least else 'large'}; allowed: {allowed}"


def _bytes_of(text: str, units: str = _UNITS) -> int | None:
    found = re.fullmatch(rf"([0-9]+)[{_BLANKS}]*(?:([{units}])(?:b|ib)?|b)?", text)
    if found is None:
        return None
    return int(found[1]) << (10 * (units.index(found[2]) + 1) if found[2] else 0)


def _fault_of_path(name: str, text: str) -> str:
    path = os.path.abspath(text)
    if name == "nls" and not text:
        return "empty; name a directory, or leave the option out"
    if not text:
        return ""
    if name in _FILES and text.strip(_BLANKS).lower() in (*_YES, *_NO):
        return "on and off are not paths; allowed: a path, such as /tmp/forebay.jsonl"
    if name == "nls" and os.path.islink(path):
        return f"a symbolic link to {os.readlink(path)}: name the directory itself"
    directory = path if name in _DIRECTORIES else os.path.dirname(path)
    if not os.path.isdir(directory):
        return f"{directory} {'is not a directory' if os.path.exists(directory) else 'does not exist'}"
    if not os.access(directory, os.X_OK | (os.W_OK if name == "nls" else 0)):
        return f"{directory} cannot be used: permission denied"
    return f"{path} is a directory" if name in _FILES and os.path.isdir(path) else ""


def _is_job_end(text: str) -> bool:
    if text in ("", "off"):
        return True
    if "T" in text:
        try:
            return (
                re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z?", text) is not None
                and datetime.fromisoformat(text.rstrip("Z")).year < 2201
            )
        except ValueError:
            return False
    found = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)(s|m|min|h|d)?", text)
    return found is not None and float(found[1]) * _SECONDS[found[2] or ""] <= _SECONDS_MAX
