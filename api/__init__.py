"""Accept jobs and report on them; never compute. No torch anywhere on this import path."""
