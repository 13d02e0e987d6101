"""What a payload may hold, and its one text form on every engine."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

from .exceptions import InvalidJob

MAX_DEPTH = 30
"""One engine reads no JSON that is nested deeper; held on all so that none differs."""

Place = tuple[Any, Any]
"""Where a value stands: the place of what holds it, and its key there; (None, field) is all."""

_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder()
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKED_FLOAT = re.compile(r'"\\u0000([-0-9.]+)\\u0000"')


def text_problem(text: str) -> str | None:
    """Say why no database can hold this text, or return None if all can."""
    if text.isascii() and "\x00" not in text:
        return None
    if "\x00" in text:
        return "contains a NUL character, which not every database can store; remove it."
    if _SURROGATE.search(text):
        return "contains a lone surrogate, which is not text; decode the bytes properly first."
    return None


def dump(value: Any, field: str, max_bytes: int | None = None) -> str:
    """Return `value` as the JSON text that every engine stores and gives back alike.

    Raises InvalidJob, naming the place inside `field`, for what JSON cannot hold or what the
    engines would change: NaN, NUL, lone surrogates, keys that are not strings, foreign types,
    nesting over 30 levels; and for a text over `max_bytes`.
    """
    changing: list[float] = []
    _check(value, (None, field), 0, changing)
    try:
        text = _encode(value, mark=bool(changing))
    except (TypeError, ValueError) as error:
        raise InvalidJob(field, f"cannot be written as JSON ({type(error).__name__}).") from None
    if max_bytes is not None and len(text) > max_bytes:
        raise InvalidJob(
            field,
            f"takes {len(text):,} bytes as JSON, over the limit of {max_bytes:,}; "
            "store the data elsewhere and pass its id, or raise MAX_PAYLOAD_BYTES.",
        )
    return text


def load(text: str) -> Any:
    """Return the value of a text that dump has made."""
    return _DECODER.raw_decode(text)[0]


def _check(value: Any, place: Place, depth: int, changing: list[float]) -> None:
    if value is None or isinstance(value, (bool, int)):
        return
    if isinstance(value, str):
        if problem := text_problem(value):
            raise InvalidJob(_path(place), problem)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidJob(
                _path(place), f"is {value!r}, which JSON cannot hold; use None or a text."
            )
        if _would_change(value):
            changing.append(value)
    elif isinstance(value, (dict, list, tuple)):
        if depth >= MAX_DEPTH:
            field = _path(place).split("[")[0]
            raise InvalidJob(field, f"is nested over {MAX_DEPTH} levels; flatten it.")
        for key, item in _items(value, place):
            _check(item, (place, key), depth + 1, changing)
    else:
        raise InvalidJob(
            _path(place),
            f"is of type {type(value).__name__}, which JSON cannot hold; convert it first.",
        )


def _would_change(number: float) -> bool:
    """Say whether one engine gives another number back than json.dumps has written."""
    return abs(number) >= 1e16 or (number == 0 and math.copysign(1, number) < 0)


def _items(value: Any, place: Place) -> Iterable[tuple[Any, Any]]:
    """Return the items of a list or dict with their keys, the keys of a dict checked."""
    if not isinstance(value, dict):
        return enumerate(value)
    for key in value:
        if not isinstance(key, str):
            raise InvalidJob(
                _path(place), f"has a key of type {type(key).__name__}; keys must be strings."
            )
        if problem := text_problem(key):
            raise InvalidJob(_path(place), f"has a key that {problem}")
    return value.items()


def _path(place: Place) -> str:
    """Return a place in words, such as payload['uris'][3]."""
    outer, key = place
    if outer is None:
        return str(key)
    return f"{_path(outer)}[{key[:40]!r}]" if isinstance(key, str) else f"{_path(outer)}[{key}]"


def _encode(value: Any, mark: bool) -> str:
    if not mark:
        return _ENCODER.encode(value)
    # One engine rewrites 1e+16 as 10000000000000000, which would come back as an int.
    # Written out with a decimal point, a large float stays a float. NUL cannot occur in a
    # checked payload, so it marks those numbers safely. And it knows no negative zero.
    text = json.dumps(_mark_floats(value), allow_nan=False, separators=(",", ":"))
    return _MARKED_FLOAT.sub(r"\1", text)


def _mark_floats(value: Any) -> Any:
    if isinstance(value, float) and _would_change(value):
        return f"\x00{value:.1f}\x00" if value else 0.0
    if isinstance(value, dict):
        return {key: _mark_floats(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mark_floats(item) for item in value]
    return value
