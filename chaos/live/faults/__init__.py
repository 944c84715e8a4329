"""What is done to a cluster under load: the catalogue of faults, and the plan that a seed makes of them."""
