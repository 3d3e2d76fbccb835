"""The tests of distributed operations that ship inside torch, over Gloo and over Lockstep."""
