"""Authentication and access: tokens of users, of Prometheus, and of the workers of each job."""
