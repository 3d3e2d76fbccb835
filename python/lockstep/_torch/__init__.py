"""Changes to torch.distributed where it has no public hook, and the groups of other backends."""
