# Draws of the noise, or of a user's own tokens, shared by every curve of one size. They are kept: a missing
# dataset that one new curve needs is made again without touching the other curves.


rule dataset:
    output:
        f"{CACHE}/{{kind}}/{{name}}-{{key}}.h5",
    log:
        f"{LOGS}/{{kind}}/{{name}}-{{key}}.log",
    group:
        short("draws", dataset_seconds)
    conda:
        ENVIRONMENT
    resources:
        mem_mb=memory(dataset_memory),
        runtime=minutes(dataset_seconds),
    params:
        script="workflow/scripts/generate_dataset.py",
        spec=lambda wildcards: DATASETS[
            f"{wildcards.name}-{wildcards.key}"
        ].identity.spec,
    message:
        "draw {wildcards.kind} {wildcards.name}"
    shell:
        "python {params.script} --spec {params.spec:q}"
        " --output {output:q} > {log:q} 2>&1"
