"""The field of training steps: one model, trained by everybody between hosts with shaped wires."""
