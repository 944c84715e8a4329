"""The commands for users and their rights."""
