"""Run the trainings of a table side by side on one GPU, within a time limit.

python benchmarks/lanes.py PLAN --out FOLDER --limit SECONDS [--jobs NAME …] [--set NAME=VALUE …] [--list]

A plan is a TOML file of jobs, in order:

    [[job]]
    name = "clevr_itrsa"
    lane = "b"                     # lanes run side by side, and the jobs of a lane one after the other
    seconds = 320                  # about how long it takes; a job that would not end before the limit is skipped
    after = ["clevr"]              # jobs that must have ended well before it begins
    run = ["akorn train clevr_itrsa --data clevr --out runs/clevr_itrsa"]
    then = ["akorn eval runs/clevr_itrsa/model --data {truth}"]     # side by side with the lane's next job

Commands run in FOLDER, where records gather in results/ and logs in logs/. {truth} stands for a value of the plan's
table [values], which --set changes. Jobs that ended well are remembered in done.json and are not run again. At the
limit what still runs gets SIGTERM, on which a training writes a checkpoint. Two lanes do more work than one, since
small kernels leave parts of a GPU idle; on NVIDIA GPUs start the multi-process service first
(nvidia-cuda-mps-control -d). There the first lane has the higher priority.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any

GRACE = 20.0
"""Seconds that a command has after SIGTERM until it is killed."""


@dataclass(frozen=True)
class Job:
    """One entry of a plan."""

    name: str
    run: list[str]
    lane: str = "a"
    seconds: float = 0.0
    after: list[str] = field(default_factory=list)
    then: list[str] = field(default_factory=list)


def read_plan(path: Path, values: Mapping[str, str]) -> list[Job]:
    """The jobs of a plan with the values filled in; ValueError for what cannot be meant."""
    try:
        plan = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    usual, jobs = plan.get("values", {}), []
    if foreign := set(values) - set(usual):
        raise ValueError(f"{path}: no value is called {min(foreign)!r}, expected some of {', '.join(usual) or 'none'}")
    for entry in plan.get("job", []):
        try:
            jobs.append(_job(entry, {**usual, **values}, {job.name for job in jobs}))
        except ValueError as error:
            raise ValueError(f"{path}: job {entry.get('name', 'without a name')}: {error}") from None
    if not jobs:
        raise ValueError(f"{path}: the plan has no job")
    return jobs


def _job(entry: Mapping[str, Any], values: Mapping[str, str], before: Collection[str]) -> Job:
    """A job of a plan; before: the names of earlier ones."""
    if wrong := set(entry) - {each.name for each in fields(Job)}:
        raise ValueError(f"unknown key {min(wrong)!r}")
    if missing := {"name", "run"} - set(entry):
        raise ValueError(f"{min(missing)!r} is missing")
    if entry["name"] in before:
        raise ValueError("there is another of this name")
    if unmet := set(entry.get("after", [])) - set(before):
        raise ValueError(f"it is after {min(unmet)!r}, which no earlier job is called")
    try:
        filled = {key: [line.format_map(values) for line in entry.get(key, [])] for key in ("run", "then")}
    except KeyError as error:
        raise ValueError(f"no value is called {error}") from None
    return Job(**{**entry, **filled})


def wanted(jobs: Sequence[Job], names: Collection[str] | None) -> list[Job]:
    """The jobs of these names, and those that they are after; all without names."""
    if names is None:
        return list(jobs)
    if foreign := set(names) - {job.name for job in jobs}:
        raise ValueError(f"no job is called {min(foreign)!r}, expected some of {', '.join(job.name for job in jobs)}")
    needed = set(names)
    for job in reversed(jobs):
        needed |= set(job.after) if job.name in needed else set()
    return [job for job in jobs if job.name in needed]


class Lanes:
    """Runs jobs in threads, one for each lane.

    Args:
        jobs: the plan.
        out: the folder in which commands run.
        limit: seconds from now.

    """

    def __init__(self, jobs: Sequence[Job], out: Path, limit: float) -> None:
        self.jobs, self.out, self.limit = jobs, out, limit
        self.began = time.monotonic()
        self._memory = out / "done.json"
        self._done: set[str] = set(json.loads(self._memory.read_text())) if self._memory.is_file() else set()
        self._ended: dict[str, bool] = dict.fromkeys(self._done, True)
        self._running: list[subprocess.Popen[bytes]] = []
        self._changed = threading.Condition()
        self._over = False

    def run(self) -> dict[str, bool]:
        """Run all jobs; say of each whether it ended well."""
        (self.out / "logs").mkdir(parents=True, exist_ok=True)
        lanes = dict.fromkeys(job.lane for job in self.jobs)
        threads = [threading.Thread(target=self._lane, args=(lane,)) for lane in lanes]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join(max(0.0, self.limit - self._now()))
        finally:  # after Ctrl-C too
            self._stop()
            for thread in threads:
                thread.join()
        names = [name for job in self.jobs for name in (job.name, *([f"{job.name}, then"] if job.then else []))]
        return {name: self._ended.get(name, False) for name in names}

    def _lane(self, lane: str) -> None:
        followers = []
        for job in (job for job in self.jobs if job.lane == lane):
            if job.name not in self._done:
                self._end(job.name, self._may_begin(job) and self._work(job, job.name, job.run))
            rest = f"{job.name}, then"
            if job.name in self._done and job.then and rest not in self._done:
                follower = threading.Thread(target=self._follow, args=(job, rest))
                follower.start()
                followers.append(follower)
        for follower in followers:
            follower.join()

    def _follow(self, job: Job, name: str) -> None:
        self._end(name, self._work(job, name, job.then))

    def _may_begin(self, job: Job) -> bool:
        """Wait for what comes before; say whether there is time, and whether that ended well."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or all(name in self._ended for name in job.after))
            failed = [name for name in job.after if not self._ended.get(name)]
        if self._over or failed:
            reason = "the time is over" if self._over else f"{failed[0]} did not end well"
            self._say(f"{job.name} is left out: {reason}")
            return False
        if self._now() + job.seconds > self.limit:
            self._say(f"{job.name} is left out: it takes {job.seconds:.0f} s, {self.limit - self._now():.0f} are left")
            return False
        return True

    def _work(self, job: Job, name: str, lines: Sequence[str]) -> bool:
        """Run commands one after the other until one fails; their output goes to a log."""
        self._say(f"{name} begins")
        before = self._now()
        with open(self.out / "logs" / f"{name.replace(', ', '-')}.log", "ab") as log:
            for line in lines:
                log.write(f"$ {line}\n".encode())
                log.flush()
                if status := self._command(job, line, log):
                    self._say(f"{name} FAILED with {status}: {line}")
                    return False
        self._say(f"{name} ended after {self._now() - before:.0f} s")
        return True

    def _command(self, job: Job, line: str, log: IO[bytes]) -> int:
        """The exit status of one command."""
        words = shlex.split(line)
        if words[0] in ("akorn", "python"):
            words[:1] = [sys.executable, *(["-m", "akorn"] if words[0] == "akorn" else [])]
        priority = "0" if job.lane == self.jobs[0].lane else "1"  # 1 is below normal
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "CUDA_MPS_CLIENT_PRIORITY": priority}
        with self._changed:
            if self._over:
                return -1
            try:
                process = subprocess.Popen(
                    words, cwd=self.out, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
                )
            except OSError as error:
                log.write(f"{error}\n".encode())
                return -1
            self._running.append(process)
        status = process.wait()
        with self._changed:
            self._running.remove(process)
        return status

    def _end(self, name: str, well: bool) -> None:
        with self._changed:
            self._ended[name] = well
            if well:
                self._done.add(name)
                self._memory.write_text(json.dumps(sorted(self._done)))
            self._changed.notify_all()

    def _stop(self) -> None:
        """Ask all that runs to stop, and kill what does not."""
        with self._changed:
            self._over = True
            running = list(self._running)
            self._changed.notify_all()
        for process in running:
            process.terminate()
        until = time.monotonic() + GRACE
        for process in running:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()

    def _now(self) -> float:
        return time.monotonic() - self.began

    def _say(self, text: str) -> None:
        print(f"{self._now():6.0f} s  {text}", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run a plan; exit status 1 if a job did not end well, 2 for a plan that cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, required=True, metavar="SECONDS")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--jobs", nargs="+", metavar="NAME", help="run only these and what they are after")
    parser.add_argument("--list", action="store_true", help="only show the jobs and their times")
    said = parser.parse_args(words)
    values = {name: value for name, _, value in (each.partition("=") for each in said.set)}
    try:
        jobs = wanted(read_plan(said.plan, values), said.jobs)
    except ValueError as error:
        parser.error(str(error))
    if said.list:
        for job in jobs:
            print(f"{job.lane}  {job.seconds:6.0f} s  {job.name}")
        return 0
    ended = Lanes(jobs, said.out, said.limit).run()
    print(f"{sum(ended.values())} of {len(ended)} jobs ended well")
    return 0 if all(ended.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
