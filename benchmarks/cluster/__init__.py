"""The parts of `benchmarks.cluster_experiments`: a scheduler on a real Kubernetes cluster, and what runs beside it."""
