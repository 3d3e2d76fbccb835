"""A file a contestant (field.py says what is in it)."""
