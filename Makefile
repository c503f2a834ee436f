# `make` reproduces the figures, `make test` tests; both set up .venv first, if need be.
# README.md shows the Snakemake command behind them.

PRESET = paper
FIGURE =
CORES = all
PROFILE =
PYTHON = python3
LOGGER = plain
RECOMPUTE =
SAMPLE =
FIGURES =
A =
B =

RUNS = $(if $(PROFILE),--workflow-profile $(PROFILE_HERE),--cores $(CORES))
# Snakemake says nothing of a profile that is not there, and runs without one.
PROFILE_HERE = $(if $(wildcard $(PROFILE)/config.* profiles/$(PROFILE)/config.*),$(PROFILE),$(error \
	PROFILE: there is no '$(PROFILE)'; allowed: \
	$(patsubst profiles/%/config.yaml,%,$(wildcard profiles/*/config.yaml)), or a folder with a config.yaml))
RESULTS = results
COMPILE = uv pip compile --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	--custom-compile-command "make lock"

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Modules are compiled once, into .venv, and not at every start of a job.
unexport PYTHONPATH PYTHONDONTWRITEBYTECODE

.PHONY: figures setup verify compare audit crate test test-processors test-damage test-site \
	test-cluster check benchmark lock cost references prune clean-data clean help

figures: setup ## (or just make) all figures, or one: make FIGURE=linear_regression
	@snakemake $(FIGURE) $(RUNS) --logger $(LOGGER) --config preset=$(PRESET)
	@python workflow/scripts/summarize.py --preset $(PRESET)

setup: ## .venv from the lock in envs/
	@sh envs/setup.sh "$(PYTHON)"

verify: setup ## the finished run against its parameters, code and checksums; RECOMPUTE=5%
	@python workflow/scripts/verify.py --preset $(PRESET) \
		$(if $(FIGURE),--figure $(FIGURE)) $(if $(FIGURES),--redraw) \
		$(if $(RECOMPUTE),--recompute '$(RECOMPUTE)') $(if $(SAMPLE),--sample '$(SAMPLE)')

compare: setup ## two results folders, A= and B=: what differs, and by how much
	@python workflow/scripts/compare.py '$(A)' '$(B)'

test: setup ## tests and examples, about 5 minutes
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
		pytest -n auto --dist loadgroup -m "not site and not damage and not cluster"

test-processors: setup ## the theory with the kernels of two older processors
	@for kernel in Haswell Nehalem; do OPENBLAS_CORETYPE=$$kernel OMP_NUM_THREADS=1 \
		OPENBLAS_NUM_THREADS=1 pytest -n auto tests/theory || exit 1; done

test-damage: setup ## kills jobs, spoils files, fills a disk: all must be noticed
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 pytest -n auto -m damage tests

test-site: setup ## the audit pages in headless Chromium, installed as root on Debian
	@sh tests/site/setup.sh
	@pytest -m site tests/workflow/test_site.py

test-cluster: setup ## tests on a SLURM that they start here, 4 minutes
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 pytest -m cluster

check: setup ## format, lint, floors of the library and types
	ruff format --check
	ruff check
	snakefmt --check Snakefile workflow
	snakemake --lint
	lint-imports --no-cache
	mypy

lock: setup ## envs/requirements.txt anew from pyproject.toml; UPGRADE=1 for newer versions
	@$(COMPILE) $(if $(UPGRADE),--upgrade) --quiet -o envs/requirements.txt \
		--all-extras pyproject.toml

benchmark: setup ## the core against its peers and the machine, ten minutes; benchmarks/
	@python benchmarks/compare.py
	@python benchmarks/scaling.py

cost: setup ## what a preset costs: jobs, core-hours, memory, disk, and what it took here
	@python workflow/scripts/cost.py --preset $(PRESET)

references: setup ## takes the last paper run as the reference, in figures/ and README
	@python workflow/scripts/release.py

audit: setup ## pages on every figure of a finished run: where each number is from
	@python workflow/scripts/audit.py --preset $(PRESET)

crate: setup ## a finished run as one file to hand on, a Workflow Run RO-Crate
	@python workflow/scripts/crate.py --preset $(PRESET)

prune: setup ## lists cached arrays that no figure names; DELETE=1 removes them
	@python workflow/scripts/prune.py $(if $(DELETE),--delete)

clean-data: ## removes the draws, the large part of the cache; curves are kept
	rm -rf "$(RESULTS)/cache/data"

clean: ## removes all that was computed, keeps .venv
	rm -rf "$(RESULTS)" .snakemake .pytest_cache .ruff_cache .mypy_cache .hypothesis

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "PRESET=paper   size of the run: paper, quick (minutes), smoke (seconds),"
	@echo "               large (a cluster, docs/cluster.md) or scaling (many tokens)"
	@echo "FIGURE=        one figure, by its folder in figures/"
	@echo "RECOMPUTE=     verify: share of the curves to compute again from seeds; SAMPLE= which"
	@echo "FIGURES=1      verify: draw the pictures again too"
	@echo "CORES=all      how many jobs run at once, within 80 % of the memory"
	@echo "PROFILE=slurm  jobs go to a cluster instead, see docs/cluster.md"
	@echo "PYTHON=python3 what .venv is made with, from 3.11 to 3.14"
	@echo "LOGGER=plain   one line a job with the time left; rich: bars, on a terminal"
