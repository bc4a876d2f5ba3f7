"""What is learned before measuring: adapters, and what words cost, by the server's usage or by a tokenizer's file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from headcount import virtual
from headcount.errors import ScenarioError
from headcount.preflight import Settled, reach, settle_workload
from headcount.scenario import EngineOptions
from headcount.simulator.words import MESSAGE_TOKENS, PROMPT_TOKENS


def settled(table: dict[str, Any], tokenizer_file: str | None = None, **options: object) -> Settled:
    """A workload settled with the simulated server."""

    async def settle() -> Settled:
        ready = await reach(EngineOptions(kind="simulated", options=options), None)
        return await settle_workload(ready, table, 1, tokenizer_file)

    return virtual.run(settle())


def tokenizer_file(folder: Path) -> str:
    """A tokenizer to which every word is two tokens: its first letter and the rest."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(r"^."), "isolated")]
    )
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return str(path)


def test_usage_tells_what_a_word_and_the_template_cost() -> None:
    """The simulated server's own rule comes out."""
    found = settled({"kind": "chat"})

    assert found.template_tokens == PROMPT_TOKENS + MESSAGE_TOKENS
    assert found.table["tokens_per_word"] == {"english": pytest.approx(1.2, rel=0.3)}
    assert any("as the server counts" in note for note in found.notes)


def test_what_is_noted_is_what_is_planned_with() -> None:
    """A first guess from texts of other lengths does not stay."""
    found = settled({"kind": "chat", "languages": "korean"})

    costs = found.table["tokens_per_word"]
    assert isinstance(costs, dict)
    assert found.notes[-1].startswith(f"korean: {costs['korean']:.2f} tokens a word")


def test_a_tokenizers_file_counts_where_a_server_does_not(tmp_path: Path) -> None:
    """Words cost what the file says, in every language; without usage the template stays unknown."""
    table = {"kind": "chat", "languages": {"english": 1, "korean": 1}}

    found = settled(table, tokenizer_file(tmp_path), usage=False)

    costs = found.table["tokens_per_word"]
    assert isinstance(costs, dict)
    assert set(costs) == {"english", "korean"}
    assert all(1.8 < cost <= 2.0 for cost in costs.values())  # words of one letter are one token
    assert found.template_tokens is None
    assert any("as its tokenizer's file counts" in note for note in found.notes)


def test_without_usage_and_file_the_guess_stands() -> None:
    """Nothing is learned, nothing is claimed."""
    found = settled({"kind": "chat"}, usage=False)

    assert "tokens_per_word" not in found.table
    assert found.notes == ()


@pytest.mark.parametrize("content", [None, "{}", "no JSON"])
def test_a_file_that_is_no_tokenizer(content: str | None, tmp_path: Path) -> None:
    """One sentence that names the file."""
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(ScenarioError, match=r"tokenizer\.json"):
        settled({"kind": "chat"}, str(path))


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint is the command that installs it."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)

    with pytest.raises(ScenarioError) as refused:
        settled({"kind": "chat"}, str(tmp_path))
    assert "headcount[tokenizer]" in refused.value.hint


def test_adapters_that_are_not_there_are_refused() -> None:
    """The server's own are named; ``all`` is spelled out."""
    found = settled({"kind": "chat", "adapters": "all"}, adapters=("sql", "law"))

    assert found.table["adapters"] == ["sql", "law"]
    with pytest.raises(ScenarioError, match="'poems' is not on the server"):
        settled({"kind": "chat", "adapters": ["sql", "poems"]}, adapters=("sql", "law"))
