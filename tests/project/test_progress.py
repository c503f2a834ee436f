"""The plain progress lines: what is running, how much is left, what failed."""

import logging
import os
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

import patient_slurm
from snakemake_logger_plugin_plain import LogHandler, Progress, duration, waiting


class Run:
    """Feeds a handler with the records that Snakemake would send, at given times."""

    def __init__(self, *, dryrun=False, **jobs):
        self.handler = LogHandler(
            SimpleNamespace(stdout=dryrun, dryrun=dryrun, quiet=None), None
        )
        self.send(LogEvent.RUN_INFO, stats={**jobs, "total": sum(jobs.values())})

    def send(self, event=None, text="", now=0.0, level=logging.INFO, **fields):
        record = logging.LogRecord("snakemake", level, "", 0, text, None, None)
        record.created = now
        if event is not None:
            record.event = event
        vars(record).update(fields)
        self.handler.emit(record)

    def start(self, job, rule="simulate", message=None, output=("array.h5",), now=0.0):
        self.send(
            LogEvent.JOB_INFO,
            jobid=job,
            rule_name=rule,
            rule_msg=message,
            output=list(output),
            reason="Missing output files: array.h5",
            now=now,
        )

    def finish(self, job, now):
        self.send(LogEvent.JOB_FINISHED, job_id=job, now=now)

    def fail(self, job, log, now=0.0, status=137):
        command = "set -euo pipefail;  python simulate_curve.py --spec '{}'"
        self.send(
            LogEvent.ERROR,
            'RuleException:\nCalledProcessError in file "simulation.smk", line 2:\n'
            f"Command '{command}' returned non-zero exit status {status}.",
        )
        self.send(
            LogEvent.JOB_ERROR,
            jobid=job,
            rule_name="simulate",
            log=[str(log)],
            now=now,
            level=logging.ERROR,
        )

    def end(self, now):
        self.send(None, "Complete log(s): /somewhere/run.log", now=now)


def printed(capsys):
    return capsys.readouterr().err.splitlines()


def test_a_line_says_how_much_is_done_and_what_starts(capsys):
    run = Run(simulate=10, all=1)
    run.start(1, message="simulate tanh against gamma")
    run.finish(1, now=2.0)
    run.start(2, rule="simulate", now=2.0)
    assert printed(capsys) == [
        "jobs to run: 11",
        "[ 0/11 done] simulate tanh against gamma",
        "[ 1/11 done, under 1 min left] simulate",
    ]


def test_a_target_that_makes_nothing_has_no_line(capsys):
    run = Run(all=1)
    run.start(0, rule="all", output=())
    assert printed(capsys) == ["jobs to run: 1"]


def test_the_chatter_of_snakemake_is_left_to_its_own_log(capsys):
    run = Run(simulate=1)
    run.send(None, "Select jobs to execute...")
    run.send(LogEvent.SHELLCMD, "python simulate_curve.py", shellcmd="python")
    run.send(LogEvent.PROGRESS, done=1, total=1)
    assert printed(capsys) == ["jobs to run: 1"]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("Nothing to be done (all requested files are present).", logging.INFO),
        ("Terminating processes on user request.", logging.INFO),
        ("Falling back to greedy scheduler", logging.WARNING),
    ],
)
def test_what_a_person_needs_to_know_is_passed_on(text, level, capsys):
    run = Run(simulate=1)
    run.send(None, text, level=level)
    assert printed(capsys)[1:] == [text]


def test_that_slurm_is_silent_is_said_once_and_how_long_it_may_be(capsys):
    run = Run(simulate=1)
    said = "Falling back to 'sacct' for status queries (MinJobAge=None; threshold=9s)."
    for _ in range(3):
        run.send(None, said)
    (line,) = printed(capsys)[1:]
    assert line.startswith(said)
    assert (
        f"{patient_slurm.VARIABLE}, {patient_slurm.PATIENCE:.0f} s unless set" in line
    )


def test_that_a_run_ends_with_its_jobs_is_said_once(capsys):
    run = Run(simulate=1)
    for _ in range(3):
        run.send(None, "Will exit after finishing currently running jobs (scheduler).")
    assert printed(capsys)[1:] == [
        "Will exit after finishing currently running jobs (scheduler)."
    ]


def test_a_refused_configuration_is_one_line(capsys):
    run = Run()
    run.send(
        LogEvent.ERROR,
        'WorkflowError in file "common.smk", line 9:\nconfig.yaml: seed: not a number'
        '\n  File "common.smk", line 9, in <module>',
        level=logging.ERROR,
    )
    assert printed(capsys)[1:] == ["error: config.yaml: seed: not a number"]


def test_what_a_function_of_a_rule_refuses_is_one_line(capsys):
    run = Run()
    run.send(
        LogEvent.ERROR,
        'InputFunctionException in rule dataset in file "data.smk", line 5:\nError:\n'
        "  WorkflowError:\n    node n1: numpy is 2.3.0 here\nWildcards:\n  kind=data\n"
        'Traceback:\n  File "common.smk", line 128, in ask (rule dataset, line 5)',
        level=logging.ERROR,
    )
    assert printed(capsys)[1:] == ["error: node n1: numpy is 2.3.0 here"]


def test_a_failed_job_shows_its_exit_status_and_the_end_of_its_log(tmp_path, capsys):
    log = tmp_path / "simulate.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    run = Run(simulate=2)
    run.start(1, message="simulate tanh")
    run.fail(1, log)
    said = printed(capsys)[2:]
    assert said[0] == "FAILED: simulate tanh (returned non-zero exit status 137)"
    assert said[1] == f"    {log}:"
    assert said[2] == "    | line 70"
    assert said[-1] == "    | line 99"


def test_a_job_without_room_for_its_log_is_told_from_others(tmp_path, capsys):
    run = Run(simulate=1)
    run.start(1, message="simulate tanh")
    run.fail(1, tmp_path / "never_written.log", status=28)
    assert printed(capsys)[-2] == "FAILED: simulate tanh (no space left on device)"


def test_a_failed_job_without_a_log_says_so(tmp_path, capsys):
    run = Run(simulate=1)
    run.start(1, message="simulate tanh")
    run.fail(1, tmp_path / "never_written.log")
    assert printed(capsys)[-1] == f"    {tmp_path / 'never_written.log'} is empty"


SLURM_SAYS = "SLURM-job '7' failed, SLURM status is: 'TIMEOUT'. For further details"


def test_a_failed_job_of_a_cluster_shows_its_status_and_the_clusters_log(
    tmp_path, capsys
):
    log, cluster = tmp_path / "simulate.log", tmp_path / "7.log"
    log.write_text("began\n")
    cluster.write_text("JOB 7 CANCELLED DUE TO TIME LIMIT\n")
    run = Run(simulate=1)
    run.start(1, message="simulate tanh")
    run.send(
        LogEvent.JOB_ERROR,
        jobid=1,
        rule_name="simulate",
        rule_msg=SLURM_SAYS,
        log=[str(log), str(cluster)],
        level=logging.ERROR,
    )
    assert printed(capsys)[2:] == [
        "FAILED: simulate tanh (TIMEOUT)",
        f"    {log}:",
        "    | began",
        f"    {cluster}:",
        "    | JOB 7 CANCELLED DUE TO TIME LIMIT",
    ]


def test_one_line_of_a_script_is_not_followed_by_what_snakemake_says_of_it(
    tmp_path, capsys
):
    log, cluster = tmp_path / "simulate.log", tmp_path / "7.log"
    log.write_text("error: draw.h5: has no array 'x'\n")
    cluster.write_text("slurmstepd: error: *** CANCELLED ***\nShutting down\n")
    run = Run(simulate=1)
    run.start(1, message="simulate tanh")
    run.send(
        LogEvent.JOB_ERROR,
        jobid=1,
        rule_name="simulate",
        rule_msg=None,
        log=[str(log), str(cluster)],
        level=logging.ERROR,
    )
    assert printed(capsys)[2:] == [
        "FAILED: simulate tanh",
        f"    {log}:",
        "    | error: draw.h5: has no array 'x'",
        f"    {cluster}:",
        "    | slurmstepd: error: *** CANCELLED ***",
    ]


def test_a_job_that_slurm_does_not_take_says_why(tmp_path, capsys):
    run = Run(simulate=1)
    run.start(1, message="simulate tanh")
    run.send(
        LogEvent.JOB_ERROR,
        jobid=1,
        rule_name="simulate",
        rule_msg="SLURM sbatch failed. The error message was 'sbatch: error: invalid "
        "partition specified: nosuch\nsbatch: error: Batch job submission failed: "
        "Invalid partition name specified'.\n    sbatch call:\n        sbatch",
        log=[str(tmp_path / "never_written.log")],
        level=logging.ERROR,
    )
    assert printed(capsys)[2] == (
        "FAILED: simulate tanh (sbatch: error: invalid partition specified: nosuch; "
        "sbatch: error: Batch job submission failed: Invalid partition name specified)"
    )


def test_a_group_without_a_log_says_how_to_see_why(capsys):
    run = Run(simulate=2)
    run.send(LogEvent.GROUP_ERROR, aux_logs=[], job_error_info=[{}, {}])
    said = printed(capsys)[1:]
    assert said[0] == "FAILED: a group of 2, namely"
    assert len(said) == 2
    assert "--group-components draws=1 curves=1" in said[1]


def test_a_failed_group_shows_its_log_once_and_names_its_jobs(tmp_path, capsys):
    cluster = tmp_path / "8.log"
    cluster.write_text("exceeded memory limit\n")
    run = Run(simulate=2)
    for job, title in ((1, "simulate tanh"), (2, "simulate cos")):
        run.start(job, message=title)
    logs, members = [str(cluster)], [{}, {}]
    run.send(LogEvent.GROUP_ERROR, aux_logs=logs, job_error_info=members)
    for job in (1, 2):
        run.send(
            LogEvent.JOB_ERROR,
            jobid=job,
            rule_name="simulate",
            rule_msg=None,
            log=[str(tmp_path / "never_written.log")],
            indent=True,
            level=logging.ERROR,
        )
    assert printed(capsys)[3:] == [
        "FAILED: a group of 2, namely",
        f"    {cluster}:",
        "    | exceeded memory limit",
        "FAILED: simulate tanh",
        "FAILED: simulate cos",
    ]


def test_why_slurm_ended_a_job_is_shown_though_much_was_said_after(tmp_path, capsys):
    log = tmp_path / "9.log"
    after = "".join(f"line {number}\n" for number in range(100))
    log.write_text(f"began\nslurmstepd-n1: error: *** TIME LIMIT ***\n{after}")
    run = Run(simulate=1)
    run.start(1, message="simulate tanh")
    run.fail(1, log)
    said = printed(capsys)[4:]
    assert said[:2] == [
        "    | slurmstepd-n1: error: *** TIME LIMIT ***",
        "    | line 70",
    ]


def test_a_job_that_is_tried_again_has_not_failed(tmp_path, capsys):
    run = Run(simulate=2)
    run.start(1, message="simulate tanh")
    run.fail(1, tmp_path / "none.log", now=10.0)
    run.start(1, message="simulate tanh", now=11.0)
    run.finish(1, now=20.0)
    run.start(2, message="simulate cos", now=20.0)
    run.finish(2, now=30.0)
    run.end(now=30.0)
    said = [line for line in printed(capsys) if line.startswith(("[", "jobs done"))]
    assert [line.partition("] ")[2] or line for line in said] == [
        "simulate tanh",
        "again: simulate tanh",
        "simulate cos",
        "jobs done: 2, in 30 s",
    ]
    assert said[2].startswith("[1/2 done")


def test_the_summary_names_what_failed_and_counts_what_was_not_run(tmp_path, capsys):
    run = Run(simulate=2, draw=1)
    run.start(1, message="simulate tanh")
    run.start(2, message="simulate cos")
    run.fail(1, tmp_path / "none.log", now=90.0)
    run.finish(2, now=100.0)
    run.end(now=180.0)
    assert printed(capsys)[-3:] == [
        "jobs failed: 1, not run: 1",
        "    simulate tanh",
        "after 3 min; Snakemake's own log: /somewhere/run.log",
    ]


def test_the_summary_of_a_good_run(capsys):
    run = Run(simulate=1)
    run.start(1)
    run.finish(1, now=20.0)
    run.end(now=20.0)
    assert printed(capsys)[-1] == "jobs done: 1, in 20 s"


def test_a_dry_run_lists_titles_and_reasons_on_standard_output(capsys):
    run = Run(dryrun=True, simulate=1)
    run.start(1, message="simulate tanh")
    assert capsys.readouterr().out.splitlines() == [
        "jobs to run: 1",
        "would run: simulate tanh",
        "    Missing output files: array.h5",
    ]


def progress(jobs, *, ended, cores=1):
    """Return a run on some cores in which jobs of (rule, seconds) have ended."""
    state = Progress()
    state.jobs = Counter(jobs)
    for number, (rule, seconds) in enumerate(ended):
        start = (number // cores) * seconds
        state.start(number, rule, start)
        state.end(number, start + seconds)
    return state


def test_time_left_is_the_mean_of_what_each_rule_took_times_what_is_left():
    state = progress({"simulate": 10, "data": 1}, ended=[("simulate", 30.0)] * 4)
    # six of 30 s, and data, of which nothing is known, by the mean of all
    assert state.seconds_left(now=120.0) == pytest.approx(7 * 30.0)


def test_two_at_once_take_half_the_time():
    state = progress({"simulate": 10}, ended=[("simulate", 30.0)] * 4, cores=2)
    assert state.seconds_left(now=60.0) == pytest.approx(6 * 30.0 / 2)


def test_what_a_running_job_has_done_is_not_left():
    state = progress({"simulate": 3}, ended=[("simulate", 30.0)])
    state.start(9, "simulate", 30.0)
    assert state.seconds_left(now=40.0) == pytest.approx(20.0 + 30.0)


def test_a_job_that_takes_longer_than_expected_never_makes_time_left_negative():
    state = progress({"simulate": 2}, ended=[("simulate", 30.0)])
    state.start(9, "simulate", 30.0)
    assert state.seconds_left(now=1000.0) == 0.0


def test_no_time_is_given_before_the_commonest_jobs_were_seen():
    state = progress({"simulate": 10, "data": 1}, ended=[("data", 1.0)])
    assert state.seconds_left(now=1.0) is None
    assert Progress().seconds_left(now=1.0) is None
    assert waiting(None) == ""


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.0, "59 s"), (61.0, "1 min"), (3601.0, "1 h 0 min")],
)
def test_durations_are_said_in_words(seconds, said):
    assert duration(seconds) == said


SNAKEFILE = """
rule all:
    input: "good.txt", "bad.txt"

rule make:
    output: "{name}.txt"
    log: "{name}.log"
    message: "make {wildcards.name}"
    shell: "(echo said by {wildcards.name}; test {wildcards.name} = good) > {log}"
        " && touch {output}"
"""


@pytest.mark.workflow
def test_snakemake_itself_finds_the_logger_and_says_no_more_than_it(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    environment = {k: v for k, v in os.environ.items() if k != "SNAKEMAKE_PROFILE"}
    options = ["--cores", "1", "--keep-going", "--logger", "plain"]
    run = subprocess.run(
        [sys.executable, "-m", "snakemake", *options],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    said = run.stderr.splitlines()
    assert said[0] == "jobs to run: 3"
    assert said[-3:-1] == ["jobs failed: 1, not run: 1", "    make bad"]
    assert said[-1].startswith("after ")
    middle = [line.partition("] ")[2] or line for line in said[1:-3]]
    assert sorted(middle) == sorted(
        [
            "make good",
            "make bad",
            "FAILED: make bad (returned non-zero exit status 1)",
            "    bad.log:",
            "    | said by bad",
        ]
    )
