# One job is one curve on one block of draws.


rule simulate:
    input:
        missing_dataset,
    output:
        f"{CACHE}/simulation/{{name}}-{{key}}.h5",
    log:
        f"{LOGS}/simulation/{{name}}-{{key}}.log",
    group:
        short("curves", simulation_seconds)
    conda:
        ENVIRONMENT
    resources:
        mem_mb=memory(simulation_memory),
        runtime=minutes(simulation_seconds),
    params:
        script="workflow/scripts/simulate_curve.py",
        spec=lambda wildcards: simulation(wildcards).item.identity.spec,
        dataset=dataset,
    message:
        "simulate {wildcards.name}"
    shell:
        "python {params.script} --spec {params.spec:q}"
        " --dataset {params.dataset:q} --output {output:q} > {log:q} 2>&1"
