"""The benchmark of training steps: one model, trained by all contestants on shaped wires."""
