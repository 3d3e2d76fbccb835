"""Saving a training: our checkpoints, PyTorch's, and files as such."""
