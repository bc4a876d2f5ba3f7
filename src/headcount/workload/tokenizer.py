"""Counting tokens by a model's own ``tokenizer.json``, for servers that do not tell how many tokens they counted.

Optional: the extra ``headcount[tokenizer]`` brings the library. Knows nothing of workloads and servers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headcount.errors import ScenarioError

__all__ = ["token_counter"]


def token_counter(path: str) -> Callable[[str], int]:
    """Counts a text's tokens, without those that begin and end a prompt.

    Raises ``ScenarioError`` when the file is no tokenizer, or the library is not installed.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ScenarioError(
            "engine.tokenizer_file needs a library that is not installed", "pip install 'headcount[tokenizer]'"
        ) from error
    try:
        tokenizer = Tokenizer.from_str(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}", "check the path") from error
    except Exception as error:  # the library raises no class of its own
        raise ScenarioError(f"{path} is no tokenizer: {error}", "give the model's tokenizer.json") from error

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count
