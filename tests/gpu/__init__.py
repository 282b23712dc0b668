"""What needs an NVIDIA GPU: NVML, NCCL, CUDA tensors in elastic trainings, jobs that share a GPU."""
