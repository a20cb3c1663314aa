"""``hotslot demo``: the whole service on real parts, and a check of every image that it makes."""
