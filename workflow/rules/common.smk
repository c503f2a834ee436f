# What all rules stand on; the checked configuration, the plan and the paths in it.
import os
import shutil
import socket
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger


def refuse(reason):
    """Stop here; on a node of a cluster, let the whole run stop at the next retry."""
    if workflow.remote_exec:
        node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
        reason = f"node {node}: {reason}"
        # As interpolation_error.lease reads it; the package may be what is missing.
        run, _, folder = os.environ.get("INTERPOLATION_ERROR_RUN", "").partition(" ")
        if folder:
            Path(folder, f".run-{run}.refused").write_text(f"{reason}\n")
    raise WorkflowError(reason)


try:
    import interpolation_error
except ImportError:
    refuse(
        "the package interpolation_error is not installed here: run make, or "
        f"{sys.executable} -m pip install --no-deps -e {workflow.basedir}"
    )

ROOT = Path(workflow.basedir)
SOURCE = ROOT / "workflow" / "src"

if Path(interpolation_error.__file__).resolve().parents[1] != SOURCE.resolve():
    refuse(
        f"the package interpolation_error comes from {interpolation_error.__file__}, "
        f"not from this clone ({SOURCE}): run make here, or install this clone"
    )

from interpolation_error import configuration, lease, plan, resources, store

# Jobs run the very Python that runs Snakemake, whether or not it is on the user's path.
BIN = str(Path(sys.executable).parent)
os.environ.update(PATH=os.pathsep.join([BIN, os.environ.get("PATH", os.defpath)]))

try:
    # Read here first: Snakemake takes a key that stands twice, and names no line.
    configuration.read_yaml(Path("config/config.yaml"), Path())
except configuration.ConfigurationError as error:
    raise WorkflowError(str(error))


configfile: "config/config.yaml"


STYLE = ROOT / "figures" / "paper.mplstyle"

try:
    CONFIGURATION = configuration.load(config, ROOT, "config")
    PLAN = plan.Plan(CONFIGURATION, store.file_digest(STYLE))
except (configuration.ConfigurationError, OSError) as error:
    raise WorkflowError(str(error).removeprefix("[Errno 2] "))

SIMULATIONS = PLAN.simulations()
DATASETS = PLAN.datasets()

RESULTS = CONFIGURATION.results.as_posix()
CACHE = f"{RESULTS}/cache"
RUN = f"{RESULTS}/{CONFIGURATION.preset}"
LOGS = f"{RUN}/logs"
ENVIRONMENT = f"{ROOT}/envs/environment.yaml"


if workflow.remote_exec:
    try:
        lease.check(PLAN.identity())
    except lease.LeaseError as error:
        refuse(str(error))


@cache
def begin():
    """Take the results folder for this run; return why that is refused, if it is."""
    if workflow.executor_plugin.name == "slurm" and shutil.which("sbatch") is None:
        return (
            "there is no sbatch here, so no SLURM to send jobs to: run this on a login "
            "node (module load slurm, on some), or without --workflow-profile slurm"
        )
    try:
        lease.take(CONFIGURATION.results, PLAN.identity(), logger.warning)
    except lease.LeaseError as error:
        return str(error)
    return None


def runs_here():
    """Return whether this process runs jobs: no job of another, and no dry run."""
    return (
        workflow.is_main_process
        and workflow.executor_plugin is not None
        and not (workflow.dryrun or workflow.touch)
    )


onstart:
    if refusal := begin():
        raise WorkflowError(refusal)


def memory(megabytes):
    """Return the memory to ask for, an estimate, or more if that was not enough."""

    def ask(wildcards, attempt):
        estimate = megabytes(wildcards) if callable(megabytes) else megabytes
        return resources.memory_request(estimate, attempt, workflow.non_local_exec)

    return ask


def minutes(seconds):
    """Return the time to ask for, far more than estimated, and more each time."""

    def ask(wildcards, attempt):
        # A retry would end in the same way, on that node or for all of them. An error
        # from in here cancels all jobs.
        if attempt > 1 and (reason := lease.refused()):
            raise WorkflowError(reason)
        estimate = seconds(wildcards) if callable(seconds) else seconds
        return resources.minutes_request(estimate, attempt)

    return ask


def short(name, seconds):
    """Return the group of a rule's short jobs, None for long ones.

    A cluster runs a group as one job; here each goes by itself.
    """

    def group(wildcards):
        if workflow.non_local_exec and seconds(wildcards) < resources.SHORT:
            return name
        return None

    return group


def finished(name):
    """Return what exists once a figure is done: its pictures and their manifest."""
    item = PLAN.figures[name].picture
    pictures = [f"{RUN}/figures/{name}.{kind}" for kind in ("pdf", "png", "svg")]
    return [*pictures, f"{RUN}/tables/{name}.csv", f"{RUN}/manifests/{item.stem}.json"]


def simulation(wildcards):
    return SIMULATIONS[f"{wildcards.name}-{wildcards.key}"]


@cache
def simulation_costs(stem):
    # Snakemake asks again for every waiting job whenever one has finished.
    one = SIMULATIONS[stem]
    return resources.simulation_memory(one), resources.simulation_seconds(one)


def simulation_memory(wildcards):
    return simulation_costs(f"{wildcards.name}-{wildcards.key}")[0]


def simulation_seconds(wildcards):
    return simulation_costs(f"{wildcards.name}-{wildcards.key}")[1]


def dataset_spec(wildcards):
    return DATASETS[f"{wildcards.name}-{wildcards.key}"].spec


def dataset_seconds(wildcards):
    return resources.dataset_seconds(dataset_spec(wildcards))


def dataset(wildcards):
    return f"{RESULTS}/{simulation(wildcards).dataset.cached}"


def missing_dataset(wildcards):
    if runs_here():
        begin()  # before the first look at what is there; jobs may yet be finishing it
    # A curve that is there needs no dataset. Naming it all the same would simulate the
    # curve again as soon as a removed dataset comes back for another curve.
    if Path(f"{RESULTS}/{simulation(wildcards).item.cached}").exists():
        return []
    return dataset(wildcards)


wildcard_constraints:
    key="[0-9a-f]{16}",
    figure="[a-z][a-z0-9_]*",
    kind="data|tokens",
