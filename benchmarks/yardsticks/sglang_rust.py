"""Starts the client in Rust that comes with sglang's wheel, without sglang's own hundred dependencies.

``python sglang_rust.py …`` with the options of ``python -m sglang.benchmark.rust_client``; wants nothing but
``pip install --no-deps sglang``.
"""

import importlib.util
import sys
from pathlib import Path

if __name__ == "__main__":
    places = (Path(folder).glob("sglang/srt/rust_extensions/_bench*.so") for folder in sys.path)
    found = next(place for folder in places for place in folder)
    spec = importlib.util.spec_from_file_location("_bench", found)
    assert spec is not None
    assert spec.loader is not None
    client = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(client)
    client.run_argv(sys.argv)
