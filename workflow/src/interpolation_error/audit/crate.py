"""A run as one file to hand on: project, results and who made what, as an RO-Crate."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from interpolation_error.audit import array_check
from interpolation_error.audit.pages import array_facts, site
from interpolation_error.figures import drawing
from interpolation_error.run import provenance, store
from interpolation_error.run.plan import Item, Plan

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
"""What a crate conforms to; all are of RO-Crate 1.1."""
TERMS = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
"""Terms beyond the context of RO-Crate."""
STEPS = {
    "generate_dataset": ("data", "tokens"),
    "simulate_curve": ("simulation",),
    "predict_figure": ("theory",),
    "tabulate_figure": ("table",),
    "draw_figure": ("figure",),
    "simulate_study": ("study_simulation",),
    "predict_study": ("study_theory",),
    "tabulate_study": ("study_table",),
    "draw_study": ("study_figure",),
    "judge_claims": ("claims",),
}
"""The scripts of the rules, in their order, and the kinds of thing that each makes."""
PROJECT = (
    *("CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "README.md"),
    *("config", "docs", "envs", "figures", "profiles", "pyproject.toml", "workflow"),
)
"""Files and folders of the project that a crate holds, beside the Snakefile."""
FORMATS = {
    ".csv": "text/csv",
    ".h5": "application/x-hdf5",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python",
    ".svg": "image/svg+xml",
}
"""Media types by the ending of a file's name."""


def write(plan: Plan, root: Path) -> Path:
    """Write a finished run as a Workflow Run RO-Crate.

    Unpacked, it is a copy of the project with the run in its folder ``results``, so
    that it can be verified and gone on with. Draws are named and left out, since they
    are large and follow from their seeds.

    Parameters
    ----------
    plan : Plan
        The run.
    root : Path
        The project.

    Returns
    -------
    Path
        ``crate.zip`` in the run's folder.

    Raises
    ------
    ValueError
        If the run is not finished.
    StoreError
        If an array cannot be read.
    OSError
        If a file is missing or the crate cannot be written.
    """
    site.check_finished(plan)
    path = plan.configuration.results / plan.configuration.preset / "crate.zip"
    crate = _Crate(plan, root).filled()
    with store.replacing(path) as draft:
        crate.write_zip(draft)
    return path


class _Crate:
    """A crate while it is filled."""

    def __init__(self, plan: Plan, root: Path) -> None:
        self.plan, self.root = plan, root
        self.preset = plan.configuration.preset
        self.git = provenance.git_state(root)
        self.version = self.git["commit"] or metadata.version("interpolation_error")
        if self.git["changed"]:
            self.version += " with changes that are not committed"
        self.crate = ROCrate(version="1.1")
        self.crate.metadata.extra_terms = TERMS
        self.simulations = plan.simulations()
        made = {item.kind for item in self._items()}
        # A run without studies, say, has none of their steps.
        self.steps = {s: kinds for s, kinds in STEPS.items() if made & set(kinds)}
        self.actions: dict[str, list[Any]] = {script: [] for script in self.steps}

    def filled(self) -> ROCrate:
        """Return the crate with all that is in it."""
        self._describe_root()
        workflow = self._add_project()
        for file in self._results():
            self._add_file(self._source(file), file)
        for item in self._items():
            self._add_action(item)
        self._add_run(workflow)
        return self.crate

    def _add(self, identifier: str, **properties: Any) -> Any:
        """Add something that is no file, and return it."""
        return self.crate.add(ContextEntity(self.crate, identifier, properties))

    def _add_file(self, source: Path, name: str, **properties: Any) -> Any:
        """Add a file, and return it."""
        known: dict[str, Any] = {
            "name": source.name,
            "sha256": store.file_digest(source),
            "contentSize": str(source.stat().st_size),
            "encodingFormat": FORMATS.get(source.suffix, "text/plain"),
        }
        return self.crate.add_file(source, name, properties={**known, **properties})

    def _describe_root(self) -> None:
        root = self.crate.root_dataset
        root["name"] = f"Run {self.preset} of interpolation_error"
        root["description"] = (
            "Simulation and theory of the interpolation error of nonlinear attention "
            "and linear regression: the project, the arrays, tables, figures and "
            "verdicts of one run, and which job made what from what."
        )
        root["datePublished"] = provenance.now()
        root["license"] = self._add(
            "https://spdx.org/licenses/MIT",
            **{"@type": "CreativeWork", "name": "MIT License"},
        )
        root["author"] = root["publisher"] = self._add(
            "#contributors",
            **{"@type": "Organization", "name": "interpolation_error contributors"},
        )
        root["conformsTo"] = [
            self._add(
                address,
                **{
                    "@type": "CreativeWork",
                    "name": name,
                    "version": address.rpartition("/")[2],
                },
            )
            for address, name in PROFILES.items()
        ]

    def _add_project(self) -> Any:
        """Add the project's files, and return its workflow."""
        for part in PROJECT:
            for source in sorted(_files(self.root / part)):
                name = source.relative_to(self.root).as_posix()
                self._add_file(source, name, **self._tool(name))
        snakefile = self.root / "Snakefile"
        workflow = self.crate.add_workflow(
            snakefile,
            "Snakefile",
            main=True,
            lang="snakemake",
            properties={
                "@type": [
                    "File",
                    "SoftwareSourceCode",
                    "ComputationalWorkflow",
                    "HowTo",
                ],
                "name": "interpolation_error",
                "version": self.version,
                "sha256": store.file_digest(snakefile),
                "encodingFormat": "text/plain",
            },
        )
        self.crate.dereference("README.md")["about"] = self.crate.root_dataset
        for position, (script, kinds) in enumerate(self.steps.items(), start=1):
            tool = self.crate.dereference(f"workflow/scripts/{script}.py")
            workflow.append_to("hasPart", tool)
            step = self._add(
                f"#step-{script}",
                **{
                    "@type": "HowToStep",
                    "name": script.replace("_", " "),
                    "description": f"makes: {', '.join(kinds)}",
                    "position": str(position),
                    "workExample": tool,
                },
            )
            workflow.append_to("step", step)
        return workflow

    def _tool(self, name: str) -> dict[str, Any]:
        """Return what a script of a rule is beside a file; nothing for other files."""
        if name not in (f"workflow/scripts/{script}.py" for script in self.steps):
            return {}
        return {"@type": ["File", "SoftwareSourceCode"], "version": self.version}

    def _results(self) -> Iterator[str]:
        """Yield all files of the run, below the project's folder."""
        results = self.plan.configuration.results
        for item in self._items():
            if item.kind in site.DRAWS:
                continue
            for made in self._made(item):
                yield f"results/{made}"
            if (results / item.cached).with_suffix(".json").is_file():
                yield f"results/{Path(item.cached).with_suffix('.json')}"
        for kind in ("audit/*", "verification.json"):
            for path in sorted((results / self.preset).glob(kind)):
                yield f"results/{path.relative_to(results).as_posix()}"

    def _source(self, file: str) -> Path:
        return self.plan.configuration.results / Path(file).relative_to("results")

    def _items(self) -> Iterator[Item]:
        """Yield all that the run made, each once and after what it is made of."""
        shown = self.plan.shown().values()
        arrays = {item.cached: item for one in shown for item in one.items()}
        yield from arrays.values()
        for one in shown:
            yield from (one.table, one.picture)
        yield self.plan.claims

    def _made(self, item: Item) -> list[str]:
        """Return the files that hold something, below the results folder."""
        manifest = f"{self.preset}/manifests/{item.stem}.json"
        for one in self.plan.shown().values():
            if item.stem == one.table.stem:
                return [
                    *(f"{self.preset}/tables/{t}.csv" for t in one.tables),
                    manifest,
                ]
            if item.stem == one.picture.stem:
                pictures = f"{self.preset}/figures/{one.name}"
                return [*(f"{pictures}.{kind}" for kind in drawing.FORMATS), manifest]
        if item.kind == "claims":
            kinds = ("csv", "json", "md")
            return [*(f"{self.preset}/claims.{kind}" for kind in kinds), manifest]
        return [item.cached]

    def _needed(self, item: Item) -> list[Item]:
        """Return what something is made of."""
        shown = self.plan.shown()
        for one in shown.values():
            if item.stem == one.table.stem:
                return [o for o in one.items() if o.kind not in site.DRAWS]
            if item.stem == one.picture.stem:
                return [one.table]
        if item.kind == "claims":
            return [shown[name].table for name in item.spec["figures"]]
        simulation = self.simulations.get(item.stem)
        if simulation:
            return [simulation.dataset]
        parts = [part for one in self.plan.studies.values() for part in one.parts]
        return [p.dataset for p in parts if p.dataset and p.simulation == item]

    def _entities(self, item: Item) -> list[Any]:
        """Return the files of something; for draws, what stands for them."""
        if item.kind not in site.DRAWS:
            return [
                self.crate.dereference(f"results/{one}") for one in self._made(item)
            ]
        identifier = f"#{item.cached}"
        known = self.crate.dereference(identifier)
        return [known or self._add(identifier, **self._draws(item))]

    def _draws(self, item: Item) -> dict[str, Any]:
        facts = array_facts.facts(item, self.plan.configuration.results)
        return {
            "@type": "CreativeWork",
            "name": Path(item.cached).name,
            "description": "Draws, left out: the workflow makes them again from the "
            f"root seed. Checksum of the arrays: {facts['checksum'] or 'not kept'}",
        }

    def _add_action(self, item: Item) -> None:
        """Add the job that made something."""
        script = next(name for name, kinds in STEPS.items() if item.kind in kinds)
        made, needed = self._entities(item), self._needed(item)
        action = self.crate.add_action(
            self.crate.dereference(f"workflow/scripts/{script}.py"),
            f"#job-{item.kind}-{item.stem}",
            object=_plain([o for other in needed for o in self._entities(other)]),
            result=_plain(made),
            properties={
                "name": f"{script.replace('_', ' ')} {item.name}",
                "description": self._cost(item),
            },
        )
        self.actions[script].append(action)
        self.crate.root_dataset.append_to("mentions", action)

    def _cost(self, item: Item) -> str:
        path = self.plan.configuration.results / item.cached
        record = array_check.job_record(path) or {}
        words = {
            "seconds": "{} s",
            "peak_memory_mb": "at most {} MB",
            "machine": "{}",
            "python": "Python {}",
        }
        said = [how.format(record[key]) for key, how in words.items() if key in record]
        return ", ".join(said) or "no record of time and memory"

    def _add_run(self, workflow: Any) -> None:
        """Add the run as a whole: its parameters, its results, who drove its steps."""
        chosen = {"preset": self.preset, "seed": self.plan.configuration.seed}
        values = []
        for name, value in chosen.items():
            parameter = self._add(
                f"#parameter-{name}",
                **{
                    "@type": "FormalParameter",
                    "name": name,
                    "additionalType": "Integer" if name == "seed" else "Text",
                },
            )
            given = self._add(
                f"#{name}",
                **{
                    "@type": "PropertyValue",
                    "name": name,
                    "value": str(value),
                    "exampleOfWork": parameter,
                },
            )
            parameter["workExample"] = given
            workflow.append_to("input", parameter)
            values.append(given)
        shown = [
            entity
            for item in self._items()
            if item.kind.endswith(("table", "figure", "claims"))
            for entity in self._entities(item)
        ]
        run = self.crate.add_action(
            *(workflow, "#run"),
            object=values,
            result=shown,
            properties={
                "name": f"run {self.preset}",
                "description": f"make PRESET={self.preset}",
            },
        )
        self.crate.root_dataset.append_to("mentions", run)
        engine = self._add(
            "https://snakemake.github.io",
            **{
                "@type": "SoftwareApplication",
                "name": "Snakemake",
                "version": metadata.version("snakemake"),
                "url": "https://snakemake.github.io",
            },
        )
        controls = [
            self._add(
                f"#control-{script}",
                **{
                    "@type": "ControlAction",
                    "name": f"jobs of {script.replace('_', ' ')}",
                    "instrument": self.crate.dereference(f"#step-{script}"),
                    "object": _plain(actions),
                },
            )
            for script, actions in self.actions.items()
            if actions
        ]
        self._add(
            "#organize",
            **{
                "@type": "OrganizeAction",
                "name": "Snakemake's run of the workflow",
                "instrument": engine,
                "object": controls,
                "result": run,
            },
        )


def _plain(entities: list[Any]) -> Any:
    """Return a single one as itself, as RO-Crate recommends."""
    return entities[0] if len(entities) == 1 else entities


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or all in a folder but what Python leaves behind."""
    if not path.is_dir():
        yield path
        return
    for one in path.rglob("*"):
        below = one.relative_to(path).parts
        left = any(
            p.startswith((".", "__")) or p.endswith(".egg-info") for p in below[:-1]
        )
        if one.is_file() and not left and not one.name.startswith("."):
            yield one
