"""Snakemake's progress as one plain line a job: ``snakemake --logger plain``.

    [ 36/275 done, about 9 min left] simulate attention_tanh

Each line is a job that starts, by its rule's ``message:``. A failed job shows the end
of its log. All else that Snakemake says is in its own log, under .snakemake/log.
"""

import errno
import logging
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase

LOG_LINES = 30  # shown of a failed job's log
SHOWN = ("Nothing to be done", "This was a dry-run", "Terminating", "Shutting down")
NO_LOG = (
    "has no log, as when the scheduler does not take it; to see why, send its jobs one "
    "by one: --group-components draws=1 curves=1"
)
# Of the SLURM executor, where the controller does not answer.
NO_ANSWER = "Falling back to 'sacct' for status queries"
IF_SILENT = (
    "SLURM's controller is away, or forgets ended jobs early; it is asked again until "
    "INTERPOLATION_ERROR_SLURM_PATIENCE, 600 s unless set, is over"
)
STOPPING = "Will exit after finishing currently running jobs"  # after a SIGTERM
SUMMARIZED = ("Exiting because a job", "At least one job did not complete")


class Progress:
    """Counts the jobs of a run and estimates, from what they took, how long is left."""

    def __init__(self) -> None:
        self.jobs: Counter[str] = Counter()  # by rule, all that this run has to do
        self.ended: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.running: dict[int, tuple[str, float]] = {}
        self.first: float | None = None

    def start(self, job: int, rule: str, now: float) -> None:
        self.first = now if self.first is None else self.first
        self.running[job] = (rule, now)

    def end(self, job: int, now: float) -> None:
        if job in self.running:
            rule, start = self.running.pop(job)
            self.ended[rule] += 1
            self.seconds[rule] += now - start

    def seconds_left(self, now: float) -> float | None:
        """Return a rough time left, or None before the commonest jobs were seen.

        A job is expected to take the mean of its rule so far (of all rules, if none of
        its own has ended), with as many running at once as until now.
        """
        seen = sum(count for rule, count in self.jobs.items() if self.ended[rule])
        if self.first is None or not seen or 2 * seen < self.jobs.total():
            return None
        total = sum(self.seconds.values())
        work = 0.0
        for rule, count in (self.jobs - self.ended).items():
            ended = self.ended[rule]
            mean = self.seconds[rule] / ended if ended else total / self.ended.total()
            runs = [
                now - start for name, start in self.running.values() if name == rule
            ]
            work += count * mean - sum(min(taken, mean) for taken in runs)
        busy = total + sum(now - start for _, start in self.running.values())
        return work * (now - self.first) / busy if busy else None


def duration(seconds: float) -> str:
    """Return a time in the words of a person who waits."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def waiting(seconds: float | None) -> str:
    """Return what a line says of the time left, nothing while it is not known."""
    if seconds is None:
        return ""
    return ", under 1 min left" if seconds < 60 else f", about {duration(seconds)} left"


def failure(title: str, logs: Iterable[str], only_full: bool = False) -> str:
    """Return what failed and the end of its logs, or of those that say something."""
    said, refused = [f"FAILED: {title}"], False
    for log in map(Path, logs):
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        if lines or not only_full:
            said.append(f"    {log}{':' if lines else ' is empty'}")
        # Why SLURM ended a job stands above all that Snakemake says of its end.
        end = max(len(lines) - (0 if refused else LOG_LINES), 0)
        before, last = lines[:end], lines[end:]
        first = [line for line in before if line.startswith("slurmstepd")]
        said += [f"    | {line}" for line in (*first, *last)]
        # A script says why in one line; what Snakemake says of that is no help.
        refused = refused or any(line.startswith("error: ") for line in last)
    return "\n".join(said)


class LogHandler(LogHandlerBase):
    """What Snakemake loads when it is told ``--logger plain``."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = False  # Snakemake's own, so that --quiet counts here too
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        self.progress = Progress()
        self.titles: dict[int, str] = {}
        self.failed: dict[int, str] = {}  # and not tried again
        self.reason = ""
        self.stopping = False
        self.silent = False

    def emit(self, record: logging.LogRecord) -> None:
        """Print what a person needs of a record, if anything."""
        try:
            event = getattr(record, "event", "message")
            say = getattr(self, f"say_{event}", None)
            text = say(vars(record) | {"text": record.getMessage()}) if say else None
            if text:
                stream = sys.stdout if self.common_settings.stdout else sys.stderr
                print(text, file=stream, flush=True)
        except Exception:
            self.handleError(record)

    def say_message(self, record: dict[str, Any]) -> str | None:
        """Return a record of no special kind, if it is a warning or ends the run."""
        text: str = record["text"]
        if text.startswith("Complete log"):
            return self.summary(record["created"], text.partition(": ")[2])
        if text.startswith(STOPPING):  # at every job that ends from here on
            if self.stopping:
                return None
            self.stopping = True
            return text
        if text.startswith(NO_ANSWER):  # at every question that has no answer
            told, self.silent = self.silent, True
            return None if told else f"{text} {IF_SILENT}"
        shown = record["levelno"] >= logging.WARNING or text.startswith(SHOWN)
        return text if shown and not text.startswith(SUMMARIZED) else None

    def say_run_info(self, record: dict[str, Any]) -> str | None:
        """Return how many jobs there are; a dry run tells it twice."""
        if self.progress.jobs:
            return None
        jobs = Counter(record["stats"])
        total = jobs.pop("total")
        self.progress.jobs = jobs
        return f"jobs to run: {total}"

    def say_job_info(self, record: dict[str, Any]) -> str | None:
        """Return the line of a job that starts, or in a dry run would."""
        job, title = record["jobid"], record["rule_msg"] or record["rule_name"]
        if self.common_settings.dryrun:
            return f"would run: {title}\n    {record['reason']}"
        self.titles[job] = title
        if self.failed.pop(job, None):
            self.progress.ended[record["rule_name"]] -= 1
            title = f"again: {title}"
        done = self.progress.ended.total() - len(self.failed)
        total = self.progress.jobs.total()
        wait = waiting(self.progress.seconds_left(record["created"]))
        self.progress.start(job, record["rule_name"], record["created"])
        if not record["output"]:  # a target such as all has nothing to do itself
            return None
        return f"[{done:{len(str(total))}}/{total} done{wait}] {title}"

    def say_job_finished(self, record: dict[str, Any]) -> None:
        self.progress.end(record["job_id"], record["created"])

    def say_job_error(self, record: dict[str, Any]) -> str:
        """Return the title of a failed job and the end of its logs."""
        job = record["jobid"]
        self.progress.end(job, record["created"])
        self.failed[job] = self.titles.get(job, record["rule_name"])
        said = record.get("rule_msg") or ""
        status = re.search(r"status is: '(\w+)'", said)
        # A job that the scheduler does not take has no log but this.
        refused = re.search(r"sbatch failed.*? was '(.*?)'\.\n", said, re.DOTALL)
        reason = f" ({status[1]})" if status else self.reason
        if refused:
            reason = f" ({'; '.join(refused[1].splitlines())})"
        self.reason = ""
        # A member of a group fails with it, and may have nothing to say itself.
        return failure(
            self.failed[job] + reason, record["log"], record.get("indent", False)
        )

    def say_group_error(self, record: dict[str, Any]) -> str:
        """Return the end of the log that the jobs of a group share."""
        said = failure(
            f"a group of {len(record['job_error_info'])}, namely", record["aux_logs"]
        )
        # What sbatch refuses: Snakemake keeps its words of a single job only.
        return said if record["aux_logs"] else f"{said}\n    {NO_LOG}"

    def say_error(self, record: dict[str, Any]) -> str | None:
        """Return an error of the whole run; one job's is kept for its own line."""
        head, _, text = record["text"].partition("\n")
        if text.startswith("CalledProcessError"):
            reason = text.rpartition("' ")[2].strip(" .\n")
            if reason.endswith(f" status {errno.ENOSPC}"):  # as the scripts say it
                reason = "no space left on device"
            self.reason = f" ({reason})"
            return None
        refused = re.match(r"Error:\n  WorkflowError.*:\n    (.*)\nWildcards:", text)
        if refused:  # by a function of a rule, for any job
            text = refused[1]
        elif head.startswith("WorkflowError"):  # its place in a rule file is no help
            text = text.partition('\n  File "')[0]
        else:
            text = record["text"]
        return None if text.startswith(SUMMARIZED) else f"error: {text}"

    def summary(self, now: float, log: str) -> str:
        ended, total = self.progress.ended.total(), self.progress.jobs.total()
        first = now if self.progress.first is None else self.progress.first
        took = duration(now - first)
        if not self.failed and ended == total:
            return f"jobs done: {total}, in {took}"
        said = [f"jobs failed: {len(self.failed)}, not run: {total - ended}"]
        said += [f"    {title}" for title in sorted(self.failed.values())]
        return "\n".join([*said, f"after {took}; Snakemake's own log: {log}"])
