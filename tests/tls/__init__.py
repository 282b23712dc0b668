"""TLS of the HTTP listener: its certificates, connections, workers, replicas and attackers."""
