# What a doubting reader asks of a finished run. Not part of `all`.


rule audit:
    input:
        [finished(name) for name in PLAN.figures],
        rules.claims.output,
    output:
        f"{RUN}/audit/index.html",
    log:
        f"{LOGS}/audit.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=resources.BASE_MEMORY,
    params:
        script="workflow/scripts/audit.py",
        preset=CONFIGURATION.preset,
        results=lambda wildcards, output: str(Path(output[0]).parents[2]),
    message:
        "write audit pages"
    shell:
        "python {params.script} --preset {params.preset} --results {params.results:q}"
        " > {log:q} 2>&1"
