"""How fast models run: the same code behind `sardonyx bench` and `python -m benchmarks`."""
