"""Every figure that README.md quotes: `python -m benchmarks` measures all, `python -m benchmarks NAME` one."""
