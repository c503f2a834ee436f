# What a reader who doubts a run asks for by name; no part of `all`.


# It checks what is there and asks for nothing: what it names would be made first, and
# so a missing or altered file would not be seen.
rule verify:
    log:
        f"{LOGS}/verify.log",
    localrule: True
    conda:
        ENVIRONMENT
    resources:
        mem_mb=resources.BASE_MEMORY,
    params:
        script="workflow/scripts/verify.py",
        preset=CONFIGURATION.preset,
        results=RESULTS,
    message:
        "verify all that is there"
    shell:
        "python {params.script} --preset {params.preset} --results {params.results:q}"
        " 2>&1 | tee {log:q}"


rule audit:
    input:
        [finished(name) for name in PLAN.shown()],
        rules.claims.output,
    output:
        f"{RUN}/audit/index.html",
    log:
        f"{LOGS}/audit.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=memory(resources.BASE_MEMORY),
        runtime=minutes(resources.DRAWING * len(PLAN.shown())),
    params:
        script="workflow/scripts/audit.py",
        preset=CONFIGURATION.preset,
        results=lambda wildcards, output: str(Path(output[0]).parents[2]),
    message:
        "write audit pages"
    shell:
        "python {params.script} --preset {params.preset} --results {params.results:q}"
        " > {log:q} 2>&1"
