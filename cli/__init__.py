"""What a person types. Talks HTTP to the API; starts the processes that need more."""
