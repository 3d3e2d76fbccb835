"""The build writes these into _build.py."""

VERSION: str
BUILT_FOR_PYTHON: str
BUILT_FOR_TORCH: str
