"""Runs as objects: what a notebook shows, what a script asks, and that importing headcount loads next to nothing."""

from __future__ import annotations

import ast
import html
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headcount
from headcount.cli import main
from headcount.errors import RunError, ScenarioError

NOTEBOOK = Path(__file__).parents[1] / "docs" / "examples" / "reading-a-run.ipynb"


FLAGS = ["--engine", "simulated", "--workload", "short", "--max-users", "8", "--max-time", "10m", "--yes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small simulated run."""
    out = tmp_path_factory.mktemp("runs")
    assert main(["find", *FLAGS, "--out", str(out)]) == 0
    return next(out.iterdir())


@pytest.fixture
def run(folder: Path) -> headcount.StoredRun:
    """The same, opened."""
    return headcount.open_run(folder)


def test_a_run_tells_facts_and_what_follows(run: headcount.StoredRun) -> None:
    """Without anything being computed twice."""
    assert run.facts.simulated
    assert run.scenario.workload["kind"] == "short"
    searched = [level.index for level in run.levels() if level.purpose not in ("burst", "soak")]
    assert searched == [summary.index for summary in run.summaries]
    assert {request.level for request in run.requests(level=1)} == {1}
    assert any(sample.name == "server_running_requests" for sample in run.samples())
    assert run.verdict is run.verdict
    assert repr(run) == f"<headcount run {run.path.name}: {run.verdict.sentence}>"


def test_it_can_be_judged_by_another_service_level(run: headcount.StoredRun) -> None:
    """A preset or clauses; the run's own verdict stays."""
    strict = run.judge("strict")

    assert strict.levels[0].clauses[0].clause == "ttft_p95 <= 0.5 s"
    assert run.judge(["ttft_p95 <= 60 s"]).levels[0].clauses[0].bound == 60.0
    assert run.verdict.levels[0].clauses[0].clause == "ttft_p95 <= 2 s"


def test_it_shows_itself(run: headcount.StoredRun, tmp_path: Path) -> None:
    """A frame with the whole report or single plots, from which nothing can reach the notebook."""
    shown = run._repr_html_()
    assert 'sandbox="allow-scripts"' in shown
    assert html.escape('<html lang="en">') in shown

    picture = run.plot("latency", "server")
    assert str(picture) == "<2 plots of a headcount run; save(path) writes the page>"
    assert picture._repr_html_().startswith("<iframe srcdoc=")
    assert [figure["key"] for figure in _figures(picture.html)] == ["latency", "server"]
    assert len(_figures(run.plot().html)) == len(run.pictures)
    assert picture.save(tmp_path / "plot.html").read_text(encoding="utf-8") == picture.html
    assert run.report("markdown", "ko").startswith("## ")
    with pytest.raises(ScenarioError) as caught:
        run.plot("pie")
    assert "latency" in caught.value.hint


def _figures(text: str) -> Any:
    return json.loads(text.split('id="figures">')[1].split("</script>")[0])


def test_two_runs_are_compared(run: headcount.StoredRun) -> None:
    """Statement, sentence, ratios, and a page."""
    both = headcount.compare(run, run, ("before", "after"))

    assert both.statement in ("no-difference", "cannot-tell")
    assert "before" in both.sentence
    assert {ratio.ratio for ratio in both.ratios} == {1.0}
    assert both._repr_html_().startswith("<iframe")
    assert json.loads(both.report("json"))["comparisons"][0]["names"] == ["before", "after"]


def test_what_is_no_run_says_so(tmp_path: Path) -> None:
    """As the command does."""
    with pytest.raises(RunError):
        headcount.open_run(tmp_path)


def test_importing_headcount_loads_nothing() -> None:
    """So that the command starts quickly; names come when they are asked for, and only those that there are."""
    code = "import sys, headcount; print('msgspec' in sys.modules); headcount.open_run; print('msgspec' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.split() == ["False", "True"]
    assert {"open_run", "compare"} <= set(dir(headcount))
    with pytest.raises(AttributeError):
        _ = headcount.close_run


@pytest.mark.filterwarnings("default")
def test_the_example_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell, in order, in an empty folder; what stands last in a cell shows itself as a notebook would have it."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    shown = []
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))

    assert sum(one.startswith("<iframe") for one in shown) == 3
    assert shown[0] == "0"
    assert names["run"].facts.simulated
