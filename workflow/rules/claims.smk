# The paper's statements, tested on the arrays of the figures that show them.


rule claims:
    input:
        [
            f"{RUN}/manifests/{PLAN.figures[figure].table.stem}.json"
            for figure in PLAN.claims.spec["figures"]
        ],
        [
            f"{RESULTS}/{simulation.item.cached}"
            for figure in PLAN.claims.spec["figures"]
            for simulation in PLAN.figures[figure].simulations
        ],
    output:
        json=f"{RUN}/claims.json",
        csv=f"{RUN}/claims.csv",
        markdown=f"{RUN}/claims.md",
        manifest=f"{RUN}/manifests/{PLAN.claims.stem}.json",
    log:
        f"{LOGS}/claims.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=memory(resources.BASE_MEMORY),
        runtime=minutes(resources.DRAWING),
    params:
        script="workflow/scripts/judge_claims.py",
        results=lambda wildcards, output: str(Path(output.json).parents[1]),
        spec=PLAN.claims.identity.spec,
    message:
        "judge claims"
    shell:
        "python {params.script} --spec {params.spec:q}"
        " --results {params.results:q} --json {output.json:q} --csv {output.csv:q}"
        " --markdown {output.markdown:q} --manifest {output.manifest:q}"
        " > {log:q} 2>&1"
