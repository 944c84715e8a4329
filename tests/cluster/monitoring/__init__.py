"""A real Prometheus with the rules of deploy/prometheus, and real node processes with faults."""
