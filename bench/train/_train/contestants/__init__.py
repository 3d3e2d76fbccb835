"""A file for each contestant (field.py describes its contents)."""
