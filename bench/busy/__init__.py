"""How busy a worker's denoiser is while jobs wait, beside a worker that does one thing after the other."""
