"""The Kubernetes cluster: nodes of the API as nodes, pods as workers.

    cluster     the port: observe from memory, apply by requests
    connection  requests to the API server, paced and bounded in time
    credentials the client that makes them, and what it needs to be let in
    addresses   names of pods, and where workers reach each other
    answers     what the errors of requests mean
    refusals    what was refused and may be granted later
    reflector   one kind of object kept in step by list and watch, each in a thread of its own
    picture     what both reflectors know, put together as an observation
    nodes pods  what matters of a node and of a pod
    others      what pods of others hold, and which of them wait
    demands     what pods that wait for room ask of the scheduler
    ends        what the status of a pod says of its worker
    inquiries   what events say where a status does not
    manifest    the pod of a worker, built upon the user's template
    names       an init container that waits for names of pods
    checkpoints where a worker's checkpoints go
    network     who reaches the workers of a job
    prerequisites what a namespace must have before pods are made there
    overselling which nodes may be shared, how busy their slots are, which GPUs a sharer gets
    slot_gpus   which GPU each slot stands for, and how busy slots are by that
    gpu_figures what NVIDIA's exporter tells of the GPUs of a node; gpu_readings asks it, exporters knows where it is
    cpu_usage   how busy CPU slots are, by the metrics API
    logs        output of workers

Nothing here decides. What was seen is kept until the API says otherwise: while it does not answer, nobody is gone.
"""
