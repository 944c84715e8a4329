"""The load of a chaos run: client processes that send, read, and write down what they were told."""
