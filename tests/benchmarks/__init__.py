"""What the benchmarks say of workloads that others published."""
