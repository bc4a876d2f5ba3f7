"""The stand-in for NVIDIA's driver library."""

from tests.nvml.fixtures import boards, nvml_library

__all__ = ["boards", "nvml_library"]
