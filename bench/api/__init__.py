"""What the machinery around the models costs: submits, reads, and the time until a worker has the job."""
