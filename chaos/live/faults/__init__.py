"""The faults that a chaos run can inject, and the plan of faults that follows from a seed."""
