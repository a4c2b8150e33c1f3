"""onnxruntime.capi.onnxruntime_inference_collection: some programs import the classes here."""

from sardonyx.ort.binding import IOBinding
from sardonyx.ort.session import InferenceSession, Session
from sardonyx.ort.values import OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session"]
