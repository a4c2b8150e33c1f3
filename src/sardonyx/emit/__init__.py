"""From a program of kernels and its plan to C: the emitter, the weights, the exported folder."""

from sardonyx.emit.model import emit
from sardonyx.emit.source import Source
from sardonyx.emit.weights import Blob

__all__ = ["Blob", "Source", "emit"]
