"""What is refused of a job before it is stored because of the cluster that it would run on."""
