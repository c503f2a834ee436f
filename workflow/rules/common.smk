# What all rules stand on; the checked configuration, the plan and the paths in it.
import os
import socket
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError


def refuse(reason):
    """Stop here; on a node of a cluster, let the whole run stop at the next retry."""
    if workflow.remote_exec:
        node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
        reason = f"node {node}: {reason}"
        # As interpolation_error.run.lease reads it; the package may be what is missing.
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

from interpolation_error.figures import checked_yaml
from interpolation_error.run import configuration, plan, store

# Jobs run the very Python that runs Snakemake, whether or not it is on the user's path.
BIN = str(Path(sys.executable).parent)
os.environ.update(PATH=os.pathsep.join([BIN, os.environ.get("PATH", os.defpath)]))

try:
    # Read here first: Snakemake takes a key that stands twice, and names no line.
    checked_yaml.read_yaml(Path("config/config.yaml"), Path())
except checked_yaml.ConfigurationError as error:
    raise WorkflowError(str(error))


configfile: "config/config.yaml"


STYLE = ROOT / "figures" / "paper.mplstyle"

try:
    CONFIGURATION = configuration.load(config, ROOT, "config")
    PLAN = plan.Plan(CONFIGURATION, store.file_digest(STYLE))
except (checked_yaml.ConfigurationError, OSError) as error:
    raise WorkflowError(str(error).removeprefix("[Errno 2] "))

RESULTS = CONFIGURATION.results.as_posix()
CACHE = f"{RESULTS}/cache"
RUN = f"{RESULTS}/{CONFIGURATION.preset}"
LOGS = f"{RUN}/logs"
ENVIRONMENT = f"{ROOT}/envs/environment.yaml"


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


wildcard_constraints:
    key="[0-9a-f]{16}",
    figure="[a-z][a-z0-9_]*",
    kind="data|tokens",
