"""The rules, in files by family; `check.registry.FAMILIES` lists them."""
