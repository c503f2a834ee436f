# What jobs ask for and read, and that one run at a time has the results folder.
import shlex
import shutil
from functools import cache

from snakemake.logging import logger

import patient_slurm
from interpolation_error.run import lease, resources

SIMULATIONS = PLAN.simulations()
DATASETS = PLAN.datasets()
STUDY_PARTS = {
    item.stem: part
    for study in PLAN.studies.values()
    for part in study.parts
    for item in (part.simulation, part.theory)
    if item is not None
}

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
        patient_slurm.patience(os.environ)
        lease.take(CONFIGURATION.results, PLAN.identity(), logger.warning)
    except (lease.LeaseError, ValueError) as error:
        return str(error)
    return None


onstart:
    if refusal := begin():
        raise WorkflowError(refusal)
    if workflow.executor_plugin.name == "slurm":
        import snakemake_executor_plugin_slurm

        seconds = patient_slurm.patience(os.environ)
        patient_slurm.limit(snakemake_executor_plugin_slurm, seconds)


def is_there(item):
    """Return whether an array is cached, once jobs of a killed run have made theirs."""
    runs_jobs = workflow.is_main_process and workflow.executor_plugin is not None
    if runs_jobs and not (workflow.dryrun or workflow.touch):
        begin()  # a refusal is for onstart to tell, if there is anything to do at all
    return Path(f"{RESULTS}/{item.cached}").exists()


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


def dataset_spec(wildcards):
    return DATASETS[f"{wildcards.name}-{wildcards.key}"].spec


def dataset_memory(wildcards):
    return resources.dataset_memory(dataset_spec(wildcards))


def dataset_seconds(wildcards):
    return resources.dataset_seconds(dataset_spec(wildcards))


def theory_seconds(wildcards):
    return resources.theory_seconds(PLAN.figures[wildcards.figure])


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


def dataset(wildcards):
    return f"{RESULTS}/{simulation(wildcards).dataset.cached}"


def missing_dataset(wildcards):
    # A curve that is there needs no dataset. Naming it all the same would simulate the
    # curve again as soon as a removed dataset comes back for another curve.
    return [] if is_there(simulation(wildcards).item) else dataset(wildcards)


def study_part(wildcards):
    return STUDY_PARTS[f"{wildcards.name}-{wildcards.key}"]


def study_inputs(wildcards, noise=True):
    """Return what a part reads, by option: weights and noise."""
    part = study_part(wildcards)
    found = {"--weights": part.model.file}
    if noise and part.dataset is not None:
        found["--dataset"] = f"{RESULTS}/{part.dataset.cached}"
    return found


def study_files(wildcards, noise=True):
    found = study_inputs(wildcards, noise)
    return " ".join(f"{option} {shlex.quote(path)}" for option, path in found.items())


def study_memory(wildcards):
    return resources.study_memory(study_part(wildcards))


def study_seconds(wildcards):
    """Return about how long simulating and predicting a part take."""
    return resources.study_seconds(study_part(wildcards))


def missing_study_inputs(which):
    # As of a curve: an array that is there needs neither weights nor noise.
    def needed(wildcards):
        item = getattr(study_part(wildcards), which)
        if is_there(item):
            return []
        found = list(study_inputs(wildcards, noise=which == "simulation").values())
        if "vocabulary" in item.spec:
            found.append(str(Path(found[0]).with_name("vocab.txt")))
        return found

    return needed
