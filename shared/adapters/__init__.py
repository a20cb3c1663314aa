"""What an adapter file holds, told from its header alone: dialect, layers, ranks, verdict. No torch."""
