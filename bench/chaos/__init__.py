"""Chaos: a whole stack under load while its processes are killed, and a count of every promise that broke."""
