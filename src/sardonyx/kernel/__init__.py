"""The kernel IR: grammar, builder, verifier, NumPy interpreter, C printer."""

NUMERICS_REVISION = 4  # of the contract in docs/numerics.md
