"""The classified cause of a failure: class names and places in the code, never content."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

MAX_REASON = 200
MAX_FRAMES = 40
MAX_CHAIN = 10
MAX_TRACEBACK = 16_000
MAX_MESSAGE = 2_000

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")

Classify = Mapping[type[BaseException], str] | Callable[[BaseException], str | None] | None


def storable(text: Any) -> str:
    """Return text that every database can hold: no lone surrogates, no NUL."""
    clean = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return clean.replace("\x00", "\\x00")


def one_line(reason: Any) -> str:
    """Return a reason as it is stored: one line of at most 200 characters."""
    return _UNPRINTABLE.sub(" ", storable(reason)).strip()[:MAX_REASON]


def class_path(exception: type[BaseException]) -> str:
    """Return the dotted name of a class; builtins by their bare name."""
    if exception.__module__ == "builtins":
        return exception.__qualname__
    return f"{exception.__module__}.{exception.__qualname__}"


def classify(exception: BaseException, *classifiers: Classify) -> str:
    """Return the reason of the first classifier that knows the exception, else its class name.

    A classifier that itself fails is passed over: it must not hide the failure it describes.
    """
    for classifier in classifiers:
        if classifier is None:
            continue
        try:
            named = _ask(classifier, exception)
        except BaseException:
            named = None
        if named:
            return one_line(named)
    return one_line(class_path(type(exception)))


def _ask(classifier: Any, exception: BaseException) -> str | None:
    if not isinstance(classifier, Mapping):
        named = classifier(exception)
        return named if isinstance(named, str) else None
    for known in type(exception).__mro__:
        if known in classifier:
            return classifier[known]
    return None


def trace(exception: BaseException, messages: bool = False) -> str:
    """Return the chain of frames and class names, without values and, by default, messages.

    The text is bounded: the outermost frames and the oldest causes go first.
    """
    parts = [_trace_one(link, how, messages) for link, how in reversed(list(_chain(exception)))]
    text = storable("".join(parts))
    return text if len(text) <= MAX_TRACEBACK else "…\n" + text[-MAX_TRACEBACK:]


def _chain(exception: BaseException) -> Iterator[tuple[BaseException, str]]:
    """Yield the exception and its causes, newest first, each with how the next one came about."""
    seen: set[int] = set()
    link: BaseException | None = exception
    how = ""
    while link is not None and id(link) not in seen and len(seen) < MAX_CHAIN:
        seen.add(id(link))
        yield link, how
        if link.__cause__ is not None:
            link, how = link.__cause__, "\nwhich was the direct cause of:\n\n"
        elif link.__suppress_context__:
            return
        else:
            link, how = link.__context__, "\nduring whose handling came:\n\n"


def _trace_one(exception: BaseException, how: str, messages: bool) -> str:
    frames = list(_frames(exception.__traceback__))[-MAX_FRAMES:]
    lines = [f"  {file}:{line} in {function}\n" for file, line, function in frames]
    lines.append(class_path(type(exception)) + (_message(exception) if messages else "") + "\n")
    if isinstance(exception, BaseExceptionGroup):
        names = [class_path(type(inner)) for inner in exception.exceptions[:MAX_CHAIN]]
        lines.append(f"  holding {', '.join(names)}\n")
    return "".join(lines) + how


def _frames(tb: TracebackType | None) -> Iterator[tuple[str, int, str]]:
    for frame, line in traceback.walk_tb(tb):
        yield frame.f_code.co_filename, line or 0, frame.f_code.co_qualname


def _message(exception: BaseException) -> str:
    try:
        return f": {storable(exception)[:MAX_MESSAGE]}"
    except BaseException:
        return ": (its message could not be read)"
