"""Families of base models as data: which layers an adapter may change, and what other programs call them. No torch."""
