# The paper's statements, tested on the arrays of the figures that show them.


rule claims:
    input:
        [
            f"{RUN}/manifests/{stem}.json"
            for stem in PLAN.claims.spec["figures"].values()
        ],
        [
            f"{RESULTS}/{item.cached}"
            for figure in PLAN.claims.spec["figures"]
            for item in PLAN.shown()[figure].items()
            if item.kind in ("simulation", "study_simulation")
        ],
    output:
        json=f"{RUN}/claims.json",
        csv=report(
            f"{RUN}/claims.csv",
            caption="../../figures/claims.rst",
            category="Verdicts",
            labels={"shows": "verdicts on every statement"},
        ),
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
