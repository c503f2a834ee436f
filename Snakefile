# Reproduce the figures of "On the Interpolation Error of Nonlinear Attention versus
# Linear Regression" (arXiv:2506.18656). `make` runs this; README.md says more.
from snakemake.utils import min_version

min_version("9.0")


include: "workflow/rules/common.smk"
include: "workflow/rules/jobs.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/simulation.smk"
include: "workflow/rules/theory.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/pretrained.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/audit.smk"


rule all:
    default_target: True
    input:
        [finished(name) for name in PLAN.shown()],
        rules.claims.output,


# Each figure by its own name: snakemake linear_regression
for figure in PLAN.shown():

    rule:
        name:
            figure
        input:
            finished(figure),
