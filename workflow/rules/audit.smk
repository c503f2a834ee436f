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
