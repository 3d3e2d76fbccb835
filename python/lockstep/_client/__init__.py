"""Reads runs, metrics and lines from the daemon: docs/design/python-insight.md."""
