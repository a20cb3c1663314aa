"""Where adapter files come from: what callers may name, how it is pinned, and how its bytes are read. No torch."""
