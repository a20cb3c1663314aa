"""The words both sides agree on: jobs, catalogue, queue, storage, settings, errors."""
