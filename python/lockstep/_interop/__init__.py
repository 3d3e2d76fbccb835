"""The state of a sharded model in the forms of PyTorch and of other libraries."""
