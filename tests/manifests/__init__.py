"""What is installed on a cluster."""
