"""Workers that try ops, one op at a time each: one that dies or hangs is replaced, and its op goes on behind the case."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from ..errors import PadiffShimError
from ..text import SENTENCE, shown, tr
from .report import ALIKE, OpReport

START = 120.0  # seconds until a worker has imported both frameworks, on a busy machine
ROOT = Path(__file__).resolve().parents[2]


class Gone(Exception):
    """The worker died or did not answer in time. ``how``: the name of a signal, an exit status, or "no end within 20 s"."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Worker:
    """One process of :mod:`.worker`."""

    def __init__(self, device: str, module: str) -> None:
        reading, writing = os.pipe()
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))
        environment.setdefault("OMP_NUM_THREADS", "1")  # one thread each: orders of summation that repeat, and no fight over cores
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(writing), device],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[writing], text=True,
            env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(writing)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(reading,), daemon=True).start()
        first = self.event(START)
        if first["event"] == "refused":
            self.process.wait()
            place = tr("on the device {device}", device=repr(device)) if device else tr("here")
            raise PadiffShimError("nothing can be audited {place}: {why}", place=place, why=shown(first["why"], SENTENCE))
        self.environment: dict[str, str] = first["environment"]

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8") as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def ask(self, **request: Any) -> None:
        """Send a request."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise Gone(self._ended()) from None

    def event(self, seconds: float) -> dict[str, Any]:
        """The next event.

        Raises:
            Gone: there is none within so many seconds, after which the worker is ended, or it has died.
        """
        try:
            line = self._lines.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            self.end()
            raise Gone(tr("no end within {seconds:.0f} s", seconds=seconds)) from None
        if not line:
            raise Gone(self._ended())
        return dict(json.loads(line))

    def _ended(self) -> str:
        status = self.process.wait()
        return signal.Signals(-status).name if status < 0 else tr("exit status {status}", status=status)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()


def alone(path: Path, seconds: float) -> str:
    """How the program of one call ends that runs Paddle's kernel alone: the name of a signal, "no end within 20 s", or ""."""
    try:
        status = subprocess.run(
            [sys.executable, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return f"no end within {seconds:.0f} s"
    return signal.Signals(-status).name if status < 0 else ""


class Pool:
    """Runs ops on so many workers; :meth:`run` gives their reports as they come.

    Args:
        folder: where reproducers are written.
        device: as ``paddle.set_device`` takes it; "" for Paddle's choice.
        seconds: time limit of one op; ``case_seconds``: of one call.
        module: what a worker runs.
    """

    def __init__(
        self, folder: Path, device: str, seconds: float, case_seconds: float, module: str = f"{__package__}.worker"
    ) -> None:
        self.folder, self.device, self.seconds, self.case_seconds, self.module = folder, device, seconds, case_seconds, module
        self.environment: dict[str, str] = {}
        self._workers: list[Worker] = []
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def run(self, names: Sequence[str], count: int, done: Callable[[OpReport], None], begun: Callable[[str], None]) -> None:
        """Try the ops, in this order. ``done`` is called with each report, ``begun`` with each name, in any thread, one at a time.

        Raises:
            PadiffShimError: no worker can be started; the message has the command that shows why.
            KeyboardInterrupt: after the workers have been ended.
        """
        idle: list[Worker] = []

        def one(name: str) -> None:
            if self._stopped.is_set():
                return
            with self._lock:
                begun(name)
            worker, report = self._op(idle.pop() if idle else None, name)
            if worker is not None:
                idle.append(worker)
            if not self._stopped.is_set():
                with self._lock:
                    done(report)

        threads = ThreadPoolExecutor(count)
        try:
            for future in as_completed([threads.submit(one, name) for name in names]):
                future.result()
        finally:
            self._stopped.set()
            threads.shutdown(wait=False, cancel_futures=True)
            with self._lock:
                for worker in self._workers:
                    worker.end()

    def _worker(self) -> Worker:
        try:
            worker = Worker(self.device, self.module)
        except Gone as gone:
            command = f"{sys.executable} -m {self.module} 1 {self.device!r}"
            raise PadiffShimError(
                "no worker of the audit can be started ({how}); see what this says: {command}", how=gone.how, command=command
            ) from None
        with self._lock:
            self._workers.append(worker)
            self.environment = worker.environment
        return worker

    def _op(self, worker: Worker | None, name: str) -> tuple[Worker | None, OpReport]:
        """One op, in as many workers as it takes."""
        report, after, start = OpReport(name), "", time.monotonic()
        while not self._stopped.is_set():
            worker = worker or self._worker()
            last, begun = after, 0
            try:
                worker.ask(ask="op", op=name, after=after, folder=str(self.folder))
                while True:
                    left = self.seconds - (time.monotonic() - start)
                    event = worker.event(min(self.case_seconds, left))
                    if event["event"] == "begin":
                        last, begun = event["case"], begun + 1
                    elif report.take(event):
                        report.seconds = time.monotonic() - start
                        return worker, report
            except Gone as gone:
                worker = None
                if gone.how.startswith("exit"):  # an error of its own, and no kernel's
                    raise PadiffShimError(
                        "a worker of the audit failed at {last} ({how})", last=last or name, how=gone.how
                    ) from None
                over = time.monotonic() - start >= self.seconds
                report.died(last, "time limit of the op" if over else gone.how, at_once=begun == 1)
                if last == after or self._stopped.is_set():
                    break
                worker, after = self._shown(report), last
                if over or report.row >= ALIKE:  # the last ones have ended alike: so would the rest
                    why = "its time was over" if over else f"{ALIKE} calls, one after the other, have ended alike"
                    self._left(worker, report, after, why)
                    break
        report.seconds = time.monotonic() - start
        return worker, report

    def _left(self, worker: Worker | None, report: OpReport, after: str, why: str) -> None:
        """Say how many cases behind ``after`` are not tried."""
        worker = worker or self._worker()
        worker.ask(ask="left", op=report.name, after=after, why=why)
        report.take(worker.event(self.case_seconds))

    def _shown(self, report: OpReport) -> Worker | None:
        """A new worker, which first writes a program of the call that the last one died of."""
        worker, death = self._worker(), report.deaths[-1]
        path = self.folder / "repro" / f"{report.name}_ends_{len(report.deaths)}.py"
        try:
            worker.ask(ask="script", case=death["case"], path=str(path), says=f"the process ends: {death['how']}")
            report.take(worker.event(self.case_seconds))
        except Gone:
            return None
        death["alone"] = alone(path, self.case_seconds)
        return worker
