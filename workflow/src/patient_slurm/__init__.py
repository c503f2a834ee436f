"""A run on SLURM that ends when SLURM has nothing to say any more.

Snakemake's executor for SLURM (tried at 2.8.0) forgets all of its jobs when a question
about them stays without an answer, and then waits for ever, as it does for a job that
SLURM has forgotten. Here it asks again, up to a deadline. It also asks less and less
often, whatever Snakemake was told; here that has an upper end.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

VARIABLE = "INTERPOLATION_ERROR_SLURM_PATIENCE"
"""How many seconds SLURM may be silent."""
PATIENCE = 600.0
AGAIN = 10
"""Seconds after which a question that had no answer is asked again, at the latest."""


class _SilenceError(Exception):
    """SLURM did not answer."""


def patience(environment: Mapping[str, str]) -> float:
    """Return how many seconds a user lets SLURM be silent.

    Raises
    ------
    ValueError
        If that is no positive number; one line.

    Examples
    --------
    >>> patience({})
    600.0
    >>> patience({VARIABLE: "90"})
    90.0
    >>> patience({VARIABLE: "long"})
    Traceback (most recent call last):
        ...
    ValueError: INTERPOLATION_ERROR_SLURM_PATIENCE must be seconds, over 0; got 'long'
    """
    said = environment.get(VARIABLE, str(PATIENCE))
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{VARIABLE} must be seconds, over 0; got {said!r}")
    return seconds


def limit(plugin: Any, seconds: float) -> None:
    """Give the executor of SLURM a deadline, and let it ask as often as it is told to.

    Parameters
    ----------
    plugin : module
        ``snakemake_executor_plugin_slurm``, whose executor is changed in place.
    seconds : float
        How long SLURM may be silent before the run ends, and how long it may not know a
        job before that counts as failed.
    """
    check, query = plugin.Executor.check_active_jobs, plugin.query_job_status
    known: set[str] = set()
    missing: dict[str, float] = {}
    silent_since: float | None = None

    async def ask(*arguments: Any) -> Any:
        nonlocal silent_since
        states, took = await query(*arguments)
        if states is None:
            raise _SilenceError
        silent_since = None
        known.clear()
        known.update(states)
        return states, took

    def is_lost(number: str) -> bool:
        if known & {number, number.partition("_")[0]}:  # a task of an array
            missing.pop(number, None)
            return False
        now = time.monotonic()
        return now - missing.setdefault(number, now) > seconds

    async def check_with_deadline(self: Any, active: list[Any]) -> AsyncIterator[Any]:
        nonlocal silent_since
        try:
            async for job in check(self, active):
                if is_lost(job.external_jobid):
                    del missing[job.external_jobid]
                    self.report_job_error(job, msg=_lost(job.external_jobid))
                else:
                    yield job
            rarest = self.workflow.remote_execution_settings
            self.next_seconds_between_status_checks = min(
                self.next_seconds_between_status_checks,
                rarest.seconds_between_status_checks,
            )
        except _SilenceError:
            # It asks before it deals with any job, so that all are still to be kept.
            for job in active:
                yield job
            missing.clear()
            now = time.monotonic()
            silent_since = now if silent_since is None else silent_since
            self.next_seconds_between_status_checks = min(AGAIN, seconds / 4)
            if now - silent_since > seconds:
                error = WorkflowError(_silent(seconds))
                self.workflow.scheduler.executor_error_callback(error)

    plugin.query_job_status = ask
    plugin.Executor.check_active_jobs = check_with_deadline


def _silent(seconds: float) -> str:
    return (
        f"SLURM's controller has been away for {seconds:.0f} s, so this run ends; its "
        "jobs are SLURM's, and what they make is kept: run the same command again when "
        f"squeue answers (or wait longer: export {VARIABLE}=SECONDS)"
    )


def _lost(number: str) -> str:
    # The words by which the executor tells any state of a job.
    return f"SLURM knows nothing of job '{number}', SLURM status is: 'FORGOTTEN'. "
