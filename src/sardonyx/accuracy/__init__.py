"""How accurate results are.

python -m sardonyx.accuracy     the elementary functions, measured (docs/accuracy.md)
accuracy.shadow                 a bound on the error of each tensor of a run
"""
