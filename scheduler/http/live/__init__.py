"""What is sent as it happens: the live cluster as server-sent events, and waking those who wait for news."""
