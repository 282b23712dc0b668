"""What the measured jobs run."""
