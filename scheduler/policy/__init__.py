"""What should run where: pure functions of (world, now, settings)."""
