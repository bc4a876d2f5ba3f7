"""The simulated server over HTTP, on the wall clock: to try everything, and to test clients, without a GPU.

OpenAI-compatible, in the dialect of vLLM, SGLang or llama.cpp. Knows nothing of measuring.
"""

from headcount.mock.server import MockServer
from headcount.mock.serving import run

__all__ = ["MockServer", "run"]
