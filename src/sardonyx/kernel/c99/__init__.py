"""Kernels as C99: the forms that fit it, the printers, and the C that they lean on."""
