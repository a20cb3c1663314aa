"""One process, one base model, many adapters."""
