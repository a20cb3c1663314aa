"""Which order costs how many swaps, and whom it makes wait: the worker's own choice in virtual time, beside others."""
