"""Families of base models as torch sees them: pipeline class, and how a prompt becomes its arguments. One file each."""
