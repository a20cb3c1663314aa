"""What prefetching saves when every job needs an adapter that is nowhere near yet."""
