# All predicted curves of a figure. It never sees an array of the simulation.


rule predict:
    output:
        f"{CACHE}/theory/{{figure}}-{{key}}.h5",
    log:
        f"{LOGS}/theory/{{figure}}-{{key}}.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=memory(resources.BASE_MEMORY),
        runtime=minutes(theory_seconds),
    params:
        script="workflow/scripts/predict_figure.py",
        spec=lambda wildcards: PLAN.figures[wildcards.figure].theory.identity.spec,
    message:
        "predict {wildcards.figure}"
    shell:
        "python {params.script} --spec {params.spec:q}"
        " --output {output:q} > {log:q} 2>&1"
