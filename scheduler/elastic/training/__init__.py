"""What a training script uses: samples, batches, gradients, learning rates, state, checkpoints and metrics."""
