"""The kernel IR: grammar, builder, verifier, NumPy interpreter; its C99 is in kernel/c99."""

NUMERICS_REVISION = 8  # of the contract in docs/numerics.md
