"""The faults that a chaos run can strike, and the plan that a seed gives."""
