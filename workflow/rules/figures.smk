# Tables join simulation and theory; pictures show tables. A manifest's name ends in the
# key of all that the file beside it was made from, so that a table or picture made from
# anything else is a missing file, also where Snakemake's own records are gone.

for figure, figure_plan in PLAN.figures.items():

    rule:
        name:
            f"tabulate_{figure}"
        input:
            [
                f"{RESULTS}/{simulation.item.cached}"
                for simulation in figure_plan.simulations
            ],
            f"{RESULTS}/{figure_plan.theory.cached}",
        output:
            table=in_report(f"{RUN}/tables/{figure}.csv", figure, "numbers"),
            manifest=f"{RUN}/manifests/{figure_plan.table.stem}.json",
        log:
            f"{LOGS}/tables/{figure}.log",
        conda:
            ENVIRONMENT
        resources:
            mem_mb=memory(resources.BASE_MEMORY),
            runtime=minutes(resources.DRAWING),
        params:
            script="workflow/scripts/tabulate_figure.py",
            results=lambda wildcards, input: str(Path(input[0]).parents[2]),
            spec=figure_plan.table.identity.spec,
        message:
            f"tabulate {figure}"
        shell:
            "python {params.script} --spec {params.spec:q}"
            " --results {params.results:q} --table {output.table:q}"
            " --manifest {output.manifest:q} > {log:q} 2>&1"

    rule:
        name:
            f"draw_{figure}"
        input:
            table=f"{RUN}/tables/{figure}.csv",
            manifest=f"{RUN}/manifests/{figure_plan.table.stem}.json",
            # Its digest is in the key; when it was written does not matter.
            style=ancient(STYLE),
        output:
            pictures=[
                f"{RUN}/figures/{figure}.pdf",
                in_report(f"{RUN}/figures/{figure}.png", figure, "picture"),
                f"{RUN}/figures/{figure}.svg",
            ],
            manifest=f"{RUN}/manifests/{figure_plan.picture.stem}.json",
        log:
            f"{LOGS}/figures/{figure}.log",
        conda:
            ENVIRONMENT
        resources:
            mem_mb=memory(resources.BASE_MEMORY),
            runtime=minutes(resources.DRAWING),
        params:
            script="workflow/scripts/draw_figure.py",
            spec=figure_plan.picture.identity.spec,
        message:
            f"draw {figure}"
        shell:
            "python {params.script} --spec {params.spec:q}"
            " --table {input.table:q} --style {input.style:q}"
            " --manifest {output.manifest:q} --pictures {output.pictures:q}"
            " > {log:q} 2>&1"
