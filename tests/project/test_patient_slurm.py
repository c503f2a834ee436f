"""How long a run waits for a SLURM that does not answer, or forgot a job."""

import asyncio
from types import SimpleNamespace

import pytest
import snakemake_executor_plugin_slurm as installed

import patient_slurm

SILENT = None, None


class Slurm:
    """Stands for the plugin: answers as it is told to, at times that it is told."""

    rarest = 180

    def __init__(self, monkeypatch, seconds):
        self.now = 0.0
        self.failed, self.ended = {}, []
        monkeypatch.setattr(patient_slurm.time, "monotonic", lambda: self.now)

        async def query(command, logger):
            return self.answer

        outer = self

        class Executor:
            """Asks before it deals with any job, as the real one does."""

            next_seconds_between_status_checks = 180
            workflow = SimpleNamespace(
                scheduler=SimpleNamespace(executor_error_callback=self.ended.append),
                remote_execution_settings=SimpleNamespace(
                    seconds_between_status_checks=self.rarest
                ),
            )

            def report_job_error(self, job, msg):
                outer.failed[job.external_jobid] = msg

            async def check_active_jobs(self, active):
                states, _ = await outer.plugin.query_job_status("squeue", None)
                for job in active:
                    if states.get(job.external_jobid) != "COMPLETED":
                        yield job

        self.plugin = SimpleNamespace(Executor=Executor, query_job_status=query)
        self.executor = Executor()
        patient_slurm.limit(self.plugin, seconds)

    def ask(self, now, answer, *jobs):
        """Return the jobs that are still waited for."""
        self.now, self.answer = now, answer
        active = [SimpleNamespace(external_jobid=job) for job in jobs]

        async def kept():
            checked = self.executor.check_active_jobs(active)
            return [job.external_jobid async for job in checked]

        return asyncio.run(kept())


def states(**jobs):
    return {name.strip("j"): state for name, state in jobs.items()}, 0.01


@pytest.fixture
def slurm(monkeypatch):
    return Slurm(monkeypatch, 60)


def test_an_answer_is_taken_as_it_is(slurm):
    answer = states(j1="COMPLETED", j2="RUNNING")
    assert slurm.ask(0, answer, "1", "2") == ["2"]
    assert slurm.executor.next_seconds_between_status_checks == 180
    assert not slurm.ended
    assert not slurm.failed


def test_it_asks_as_often_as_snakemake_is_told(monkeypatch):
    monkeypatch.setattr(Slurm, "rarest", 2)
    slurm = Slurm(monkeypatch, 60)
    slurm.ask(0, states(j1="RUNNING"), "1")
    assert slurm.executor.next_seconds_between_status_checks == 2


def test_without_an_answer_all_jobs_are_kept_and_asked_for_soon(slurm):
    assert slurm.ask(0, SILENT, "1", "2") == ["1", "2"]
    assert slurm.executor.next_seconds_between_status_checks <= patient_slurm.AGAIN
    assert slurm.ask(60, SILENT, "1", "2") == ["1", "2"]
    assert not slurm.ended


def test_after_the_deadline_the_run_ends_with_one_line(slurm):
    slurm.ask(0, SILENT, "1")
    assert slurm.ask(61, SILENT, "1") == ["1"]
    (error,) = slurm.ended
    (line,) = str(error).splitlines()
    assert "controller has been away for 60 s" in line
    assert "run the same command again" in line


def test_an_answer_begins_the_wait_anew(slurm):
    slurm.ask(0, SILENT, "1")
    slurm.ask(50, states(j1="RUNNING"), "1")
    slurm.ask(100, SILENT, "1")
    slurm.ask(150, SILENT, "1")
    assert not slurm.ended


def test_a_job_that_slurm_forgot_fails_after_the_deadline(slurm):
    other = states(j2="RUNNING")
    assert slurm.ask(0, other, "1", "2") == ["1", "2"]
    assert slurm.ask(60, other, "1", "2") == ["1", "2"]
    assert slurm.ask(61, other, "1", "2") == ["2"]
    assert list(slurm.failed) == ["1"]
    assert "status is: 'FORGOTTEN'" in slurm.failed["1"]
    assert not slurm.ended


@pytest.mark.parametrize("between", [SILENT, states(j1="PENDING")])
def test_only_answers_in_a_row_say_that_a_job_is_forgotten(slurm, between):
    slurm.ask(0, states(), "1")
    slurm.ask(50, between, "1")
    assert slurm.ask(100, states(), "1") == ["1"]
    assert not slurm.failed


def test_a_task_of_an_array_is_known_by_its_array(slurm):
    slurm.ask(0, states(j7="RUNNING"), "7_1")
    assert slurm.ask(100, states(j7="RUNNING"), "7_1") == ["7_1"]
    assert not slurm.failed


def test_a_controller_may_take_minutes_to_start_again():
    assert patient_slurm.patience({}) >= 300


@pytest.mark.parametrize("said", ["", "long", "0", "-1", "nan", "inf"])
def test_a_patience_that_is_none_is_refused_in_one_line(said):
    with pytest.raises(ValueError, match="must be seconds, over 0") as refusal:
        patient_slurm.patience({patient_slurm.VARIABLE: said})
    assert len(str(refusal.value).splitlines()) == 1


def test_the_installed_plugin_has_what_is_changed():
    for name in ("query_job_status", "Executor"):
        assert callable(getattr(installed, name))
    check = installed.Executor.check_active_jobs
    assert {"query_job_status", "report_job_success"} <= set(check.__code__.co_names)
