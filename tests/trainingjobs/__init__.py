"""TrainingJob objects."""
