"""The Kubernetes cluster: nodes of the API as nodes, pods as workers.

    cluster        the port: observe from memory, apply by requests
    cache          the state of nodes and pods, put together as an observation
    nodes, pods    the facts that are read from a node and from a pod
    pod_status     the state of a worker, from the status of its pod
    foreign_pods   what pods of others hold, and which of them are pending
    pending_pods   demands of foreign pods that are pending
    event_lookup   reasons from events where a status gives none
    manifest       the pod of a worker, built upon the user's template
    addresses      names of pods, and where workers reach each other
    names          an init container that waits for DNS names of pods
    checkpoints    the volume of a worker's checkpoints
    network        the network policy of a job's workers
    prerequisites  objects that a namespace must have before pods are made there
    retry_backoff  refused requests that may be granted later
    training_jobs  the TrainingJob objects
    logs           output of workers
    api/           requests to the API server, paced and bounded in time; lists kept in step by list and watch
    oversell/      which nodes may be shared, how busy their slots are, which GPUs a sharer gets

Nothing here decides. Observations are kept until the API says otherwise: while it does not answer, no worker is gone.
"""
