"""Sardonyx against onnxruntime and OpenVINO on one core: `python -m benchmarks`."""
