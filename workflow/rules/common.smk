# What all rules stand on; the checked configuration, the plan and the paths in it.
import os
import shlex
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

try:
    import interpolation_error
except ImportError:
    raise WorkflowError(
        "the package interpolation_error is not installed here: run make, or "
        f"{sys.executable} -m pip install --no-deps -e {workflow.basedir}"
    )

ROOT = Path(workflow.basedir)
SOURCE = ROOT / "workflow" / "src"

if Path(interpolation_error.__file__).resolve().parents[1] != SOURCE.resolve():
    raise WorkflowError(
        f"the package interpolation_error comes from {interpolation_error.__file__}, "
        f"not from this clone ({SOURCE}): run make here, or install this clone"
    )

from interpolation_error import configuration, one_run, plan, resources, store

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
CLAIMED = []


def finished(name):
    """Return what exists once a figure is done: its pictures and their manifest."""
    shown = PLAN.shown()[name]
    pictures = [f"{RUN}/figures/{name}.{kind}" for kind in ("pdf", "png", "svg")]
    tables = [f"{RUN}/tables/{table}.csv" for table in shown.tables]
    return [*pictures, *tables, f"{RUN}/manifests/{shown.picture.stem}.json"]


def in_report(path, name, shows):
    """Mark a figure's file for `snakemake --report`, under the figure's own caption."""
    return report(
        path,
        caption=f"../../figures/{name}/caption.rst",
        category="Figures",
        subcategory=PLAN.shown()[name].definition.title,
        labels={"figure": name, "shows": shows},
    )


def simulation(wildcards):
    return SIMULATIONS[f"{wildcards.name}-{wildcards.key}"]


@cache
def simulation_memory(stem):
    # Snakemake asks again for every waiting job whenever one has finished.
    return resources.simulation_memory(SIMULATIONS[stem])


def dataset(wildcards):
    return f"{RESULTS}/{simulation(wildcards).dataset.cached}"


def missing_dataset(wildcards):
    # A curve that is there needs no dataset. Naming it all the same would simulate the
    # curve again as soon as a removed dataset comes back for another curve.
    if Path(f"{RESULTS}/{simulation(wildcards).item.cached}").exists():
        return []
    return dataset(wildcards)


STUDY_PARTS = {
    item.stem: part
    for study in PLAN.studies.values()
    for part in study.parts
    for item in (part.simulation, part.theory)
    if item is not None
}


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


def missing_study_inputs(which):
    # As of a curve: an array that is there needs neither weights nor noise.
    def needed(wildcards):
        item = getattr(study_part(wildcards), which)
        if Path(f"{RESULTS}/{item.cached}").exists():
            return []
        found = list(study_inputs(wildcards, noise=which == "simulation").values())
        if "vocabulary" in item.spec:
            found.append(str(Path(found[0]).with_name("vocab.txt")))
        return found

    return needed


onstart:
    try:
        # Kept until this process ends, however it ends.
        CLAIMED.append(one_run.claim(Path(RUN)))
    except ValueError as error:
        raise WorkflowError(str(error))


wildcard_constraints:
    key="[0-9a-f]{16}",
    figure="[a-z][a-z0-9_]*",
    kind="data|tokens",
