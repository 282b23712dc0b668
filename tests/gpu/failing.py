"""Writes on its GPU where it has no memory, which the driver reports as a critical error (Xid) of a program."""

import torch

SOURCE = 'extern "C" __global__ void write(int* memory) { memory[1LL << 40] = 1; }'


def main() -> None:
    """Ends with torch's error."""
    memory = torch.zeros(1, dtype=torch.int32, device="cuda")
    torch.cuda._compile_kernel(SOURCE, "write")((1, 1, 1), (1, 1, 1), (memory,))
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
