"""The lines that a worker logs, one for each attempt, and how they reach stderr."""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TextIO

from ..policy import Outcome

if TYPE_CHECKING:
    from ..models import Job

log = logging.getLogger("django_sqlqueue")


def log_attempts(ended: Iterable[tuple[Job, Outcome]]) -> None:
    if not log.isEnabledFor(logging.INFO):
        return
    own = next((each for each in log.handlers if isinstance(each, LineHandler)), None)
    with own.together() if own else nullcontext():
        for job, outcome in ended:
            log.handle(_record(job, outcome))


def _record(job: Job, outcome: Outcome) -> logging.LogRecord:
    # As log.info would, which walks the stack for each job only to find this place again.
    code = _record.__code__
    return log.makeRecord(
        log.name,
        logging.INFO,
        code.co_filename,
        code.co_firstlineno,
        "Job %d (%s, queue %s) attempt %d of %d: %s%s in %.3f s.",
        (
            job.id,
            job.kind,
            job.queue,
            job.attempts,
            job.max_attempts,
            outcome.move,
            f" ({outcome.reason})" if outcome.reason else "",
            job.__dict__.get("_seconds", 0.0),
        ),
        None,
        code.co_name,
    )


class LineHandler(logging.StreamHandler[TextIO]):
    """A stream's handler that can write the lines of a group together.

    Each write lets another thread have the interpreter, and waiting to have it back took as long
    as making the line. No write is longer than what a pipe takes whole, so that the lines of
    several processes do not mix.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self._of_thread = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        lines: list[str] | None = getattr(self._of_thread, "lines", None)
        if lines is None:
            super().emit(record)
            return
        try:
            lines.append(self.format(record) + self.terminator)
        except Exception:
            self.handleError(record)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Keep the lines that this thread logs meanwhile, and write them at the end."""
        lines: list[str] = []
        self._of_thread.lines = lines
        try:
            yield
        finally:
            self._of_thread.lines = None
            for piece in _pieces(lines):
                self._write(piece)

    def _write(self, text: str) -> None:
        with self.lock or nullcontext():
            try:
                self.stream.write(text)
                self.flush()
            except Exception:
                self.handleError(logging.makeLogRecord({"msg": text}))


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """Join lines to texts of at most so many bytes as one write keeps whole."""
    piece, size = "", 0
    for line in lines:
        longer = len(line.encode(errors="backslashreplace"))
        if piece and size + longer > select.PIPE_BUF:
            yield piece
            piece, size = "", 0
        piece, size = piece + line, size + longer
    if piece:
        yield piece
