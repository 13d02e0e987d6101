"""The faults of a storm, one table: what each does to the fleet or to the database.

A fault begins and, after its time, ends; one that only strikes has nothing to end.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.storm import journal

if TYPE_CHECKING:
    from tests.storm.clocks import Clock
    from tests.storm.fleet import Fleet
    from tests.storm.planning import Event
    from tests.storm.servers import StormServer


@dataclass
class Stage:
    """Where a fault strikes."""

    fleet: Fleet
    server: StormServer
    lease: float
    clock: Clock | None = None
    """What workers go by, if that can be moved."""


class Fault:
    """One thing that goes wrong."""

    name = ""
    weight = 1.0
    engines: tuple[str, ...] = ("sqlite", "postgresql", "mariadb")
    lasts = (0.0, 0.0)
    """From and to how many leases."""
    needs = ""
    """What must be there to let it happen: a small disk, or moved clocks."""
    is_alone = False
    """Does no other such fault begin before this one has ended?"""
    moves_leases = False
    """Can nobody say, for a while, which leases hold?"""

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        """Strike; return what the journal should know."""
        raise NotImplementedError

    def end(self, stage: Stage) -> None:
        """Put right what was begun."""


class ProcessFault(Fault):
    """A signal to one process of a crew."""

    crew = ""
    signum = signal.SIGKILL

    def __init__(self) -> None:
        self.hit: list[int] = []

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        found = sorted(self.candidates(stage))
        if not found:
            return {"pids": []}
        pid = found[int(dice * len(found))]
        stage.fleet.hit(pid, self.signum)
        self.hit.append(pid)
        return {"pids": [pid]}

    def candidates(self, stage: Stage) -> list[int]:
        return stage.fleet.workers() if self.crew == "workers" else stage.fleet.pids(self.crew)


class PauseFault(ProcessFault):
    """A process stands still for a while, then goes on as if nothing had been."""

    signum = signal.SIGSTOP

    def end(self, stage: Stage) -> None:
        while self.hit:
            stage.fleet.hit(self.hit.pop(0), signal.SIGCONT)


class KillWorker(ProcessFault):
    name, crew = "worker killed", "workers"


class KillProducer(ProcessFault):
    name, crew, weight = "producer killed", "producers", 0.25


class KillOperator(ProcessFault):
    name, crew, weight = "operator killed", "operators", 0.05


class KillSupervisor(ProcessFault):
    name, crew, weight = "supervisor killed", "supervisors", 0.06


KILLS: tuple[type[ProcessFault], ...] = (KillWorker, KillProducer, KillOperator, KillSupervisor)


class PauseWorker(PauseFault):
    name, crew, weight, lasts = "worker stands still", "workers", 4.0, (1.2, 2.0)


class PauseWorkerBriefly(PauseFault):
    name, crew, weight, lasts = "worker stumbles", "workers", 1.0, (0.1, 0.7)


class PauseSupervisor(PauseFault):
    name, crew, weight, lasts = "supervisor stands still", "supervisors", 0.5, (0.7, 2.0)


class TermWorker(ProcessFault):
    name, crew, weight, signum = "worker asked to stop", "workers", 3.0, signal.SIGTERM


class TermSupervisor(ProcessFault):
    name, crew, weight, signum = "supervisor asked to stop", "supervisors", 0.3, signal.SIGTERM


class ForceWorker(ProcessFault):
    """Asked twice: release and leave at once."""

    name, crew, weight, signum = "worker told to leave", "workers", 0.5, signal.SIGTERM

    def begin(self, stage: Stage, dice: float) -> dict[str, Any]:
        facts = super().begin(stage, dice)
        for pid in facts["pids"]:
            stage.fleet.hit(pid, self.signum)
        return facts


PROCESS_FAULTS: tuple[type[ProcessFault], ...] = (
    PauseWorker, PauseWorkerBriefly, PauseSupervisor, TermWorker, TermSupervisor, ForceWorker,
)  # fmt: skip


class Weather:
    """Lets planned faults begin and end in their time."""

    def __init__(self, stage: Stage, events: list[Event], faults: dict[str, type[Fault]]) -> None:
        self._stage, self._faults = stage, faults
        # Those that are alone wait for each other, and nothing else for them.
        self._coming: dict[bool, list[Event]] = {True: [], False: []}
        for event in events:
            self._coming[faults[event.fault].is_alone].append(event)
        self._present: list[tuple[float, Fault]] = []
        self.begun: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        return not any(self._coming.values()) and not self._present

    def pass_until(self, second: float) -> None:
        """Begin what is planned until this second of the storm, end what has lasted its time.

        On a busy machine the seconds of the plan are longer than others.
        """
        for ends, fault in [each for each in self._present if each[0] <= time.monotonic()]:
            self._present.remove((ends, fault))
            self._end(fault)
        for is_alone, coming in self._coming.items():
            while coming and coming[0].at <= second and not (is_alone and self._is_one_alone):
                if not self._begins(coming[0]):
                    break
                coming.pop(0)

    @property
    def _is_one_alone(self) -> bool:
        return any(fault.is_alone for _, fault in self._present)

    def clear(self) -> None:
        """Put everything right; nothing more goes wrong."""
        for coming in self._coming.values():
            coming.clear()
        while self._present:
            self._end(self._present.pop()[1])

    def _begins(self, event: Event) -> bool:
        """Begin a fault; False where it finds nobody, as all are just being replaced."""
        fault = self._faults[event.fault]()
        facts = fault.begin(self._stage, event.dice)
        if facts.get("pids") == []:
            return False
        self._note(fault, "begin", lasts=event.lasts, **facts)
        self.begun[fault.name] = self.begun.get(fault.name, 0) + 1
        self._present.append((time.monotonic() + event.lasts, fault))
        return True

    def _end(self, fault: Fault) -> None:
        fault.end(self._stage)
        self._note(fault, "end")

    def _note(self, fault: Fault, phase: str, **facts: Any) -> None:
        moves = fault.moves_leases
        journal.write("fault", name=fault.name, phase=phase, moves_leases=moves, **facts)
