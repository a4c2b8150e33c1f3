"""The kernel IR: grammar, builder, verifier, NumPy interpreter, C printer."""
