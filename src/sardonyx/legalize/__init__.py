"""ONNX to SONNX: the fixes F1 to F16, each shown harmless by running the model before and after.

done = legalize("net.onnx", dims={"N": 1})
done.model, done.changes, done.undone, done.report.violations
"""

from sardonyx.legalize.pipeline import FIXES, Change, Legalized, legalize

__all__ = ["FIXES", "Change", "Legalized", "legalize"]
