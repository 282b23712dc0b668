"""Who asks, and what they may do: tokens of users, of Prometheus, and of the workers of each job."""
