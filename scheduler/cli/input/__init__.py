"""What a command line and a job file say, put together as a request."""
