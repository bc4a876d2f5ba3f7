"""Other tools' results become runs: every request where it was kept, else figures; marked, judged, compared alike.

The files in tests/data/imports are invented, in the shapes that the tools write; the two load tests are published ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from headcount.cli import main
from headcount.errors import ScenarioError
from headcount.imports import IMPORTS, import_files, in_streams, peak_in_flight
from headcount.records import Request
from headcount.report import Report, write
from headcount.report.versus import short_lines, side_by_side
from headcount.report.words import words
from headcount.review import review
from headcount.store import Run, open_run

DATA = Path(__file__).parents[1] / "data" / "imports"


def imported(tmp_path: Path, *names: str, users: int | None = None) -> Run:
    """The run folder of some files."""
    return open_run(import_files([DATA / name for name in names], tmp_path, users=users))


def test_vllm_with_details_keeps_every_request(tmp_path: Path) -> None:
    """Chunks lie where first-token times and gaps put them, in as many streams as asked at once."""
    run = imported(tmp_path, "vllm-detailed.json")
    plain = json.loads((DATA / "vllm-detailed.json").read_text())
    (level,) = run.levels()
    requests = sorted(run.requests(), key=lambda request: request.scheduled_at_s)

    assert (level.users, run.facts.engine.model) == (4, "Qwen/Qwen3-8B-AWQ")
    assert len(requests) == 80
    assert {request.person for request in requests} == {1, 2, 3, 4}
    first = requests[0]
    assert first.chunk_at_s[0] - first.scheduled_at_s == pytest.approx(plain["ttfts"][0], abs=1e-5)
    assert first.ended_at_s - first.scheduled_at_s == pytest.approx(plain["ttfts"][0] + sum(plain["itls"][0]), abs=1e-5)
    (failed,) = (request for request in requests if request.error)
    assert "Connection reset" in (failed.error_text or "")


def test_vllm_without_details_gives_figures(tmp_path: Path) -> None:
    """Milliseconds become seconds; the level is judged by them, and a caution says so."""
    run = imported(tmp_path, "vllm-plain.json")
    verdict = review(run)
    (level,) = verdict.levels

    assert (level.users, level.n_requests) == (32, 640)
    assert (level.ttft_s.p50, level.ttft_s.p95, level.e2e_s.p95) == pytest.approx((1.4505, 2.61, 14.1))
    assert level.decision == "fails"
    assert {caution.code for caution in verdict.cautions} == {"imported", "figures-only"}


def test_sglang_lines_are_levels(tmp_path: Path) -> None:
    """A run a line; starts that were not saved are made up, and that is noted."""
    run = imported(tmp_path, "sglang.jsonl")

    assert [level.users for level in run.levels()] == [2, 8]
    assert sum(1 for _ in run.requests()) == 140
    assert any("starts were not saved" in note for note in run.facts.notes)
    assert all(peak_in_flight(list(run.requests(level.index))) == level.users for level in run.levels())


def test_guidellm_with_requests(tmp_path: Path) -> None:
    """A level a strategy; TTFT, whole answer and speed are those it timed; a failed request is one."""
    run = imported(tmp_path, "guidellm.json")
    verdict = review(run)

    assert [level.users for level in verdict.levels] == [1, 4]
    assert run.facts.engine.model == "Qwen/Qwen3-8B-AWQ"
    alone = verdict.levels[0]
    assert alone.tpot_s.p50 == pytest.approx(0.03, abs=0.001)
    assert [request.error for request in run.requests() if request.error] == ["server_error"]


def test_guidellm_whose_requests_were_left_out(tmp_path: Path) -> None:
    """Its distributions stand in for them."""
    (level,) = review(imported(tmp_path, "guidellm-sampled-out.json")).levels

    assert (level.users, level.n_requests, level.decision) == (16, 300, "holds")
    assert (level.ttft_s.p95, level.e2e_s.p50, level.tpot_s.p95) == pytest.approx((1.9, 4.0, 0.045))


def test_aiperf_json_and_csv_say_the_same(tmp_path: Path) -> None:
    """But for the streams and the model, which the CSV does not tell."""
    from_json = review(imported(tmp_path, "profile_export_aiperf.json")).levels[0]
    from_csv = review(imported(tmp_path, "profile_export_aiperf.csv", users=8)).levels[0]

    assert (from_json.users, from_json.ttft_s.p95, from_json.e2e_s.p50) == pytest.approx((8, 0.7, 1.6002))
    assert from_csv.ttft_s.p95 == from_json.ttft_s.p95
    assert from_csv.output_tokens_per_s == from_json.output_tokens_per_s
    assert (from_csv.n_errors, from_json.n_errors) == (2, 0)
    with pytest.raises(ScenarioError) as caught:
        imported(tmp_path, "profile_export_aiperf.csv")
    assert "--users" in caught.value.hint


def test_aiperf_records(tmp_path: Path) -> None:
    """Every request of the profiling phase; what stands beside them tells the streams."""
    run = imported(tmp_path, "profile_export.jsonl")
    requests = list(run.requests())

    assert run.levels()[0].users == 8
    assert len(requests) == 100
    assert [request.error for request in requests if request.error] == ["http_503"]
    good = next(request for request in requests if not request.error)
    assert len(good.chunk_at_s) == 12


def test_the_published_load_tests_as_runs_give_the_published_ratios(tmp_path: Path) -> None:
    """2.97 to 3.11 times as long, 0.37 to 0.43 of the tokens, 1.03 times the memory, 13 degrees and 74 W more."""
    runs = [imported(tmp_path / name, f"load-test-{name}.csv") for name in ("8b", "32b")]
    reports = [Report(review(run), run.facts, run) for run in runs]
    both = side_by_side(reports, ("8B", "32B"))

    assert [level.comfort for level in reports[0].verdict.levels] == [
        "comfortable",
        "slightly slow",
        "frustrating",
        "unusable",
    ]
    assert short_lines(both.pairs[0], words("en")) == [
        "32B: answers take 2.97–3.11 times as long (median).",
        "32B: 0.37–0.43 times the tokens per second.",
        "32B: 1.03 times the GPU memory.",
        "32B: +13 °C at 200 people.",
        "32B: +74 W at 200 people.",
    ]


@pytest.mark.parametrize("name", [path.name for path in sorted(DATA.iterdir())])
def test_every_import_can_be_reported(name: str, tmp_path: Path) -> None:
    """Each file is known without being named, its run says that it is imported, in every format."""
    run = imported(tmp_path, name, users=8)
    report = Report(review(run), run.facts, run)

    assert run.facts.verb == "import"
    assert write("terminal", report).startswith("imported · ")
    assert ">imported</span>" in write("html", report)
    assert json.loads(write("json", report))["verb"] == "import"


def test_several_files_are_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sweep that was saved file by file, by the command."""
    files = [str(DATA / name) for name in ("vllm-plain.json", "vllm-detailed.json")]

    assert main(["import", *files, "--out", str(tmp_path), "--slo", "whole"]) == 0
    run = open_run(Path(capsys.readouterr().out.strip()))
    assert [level.users for level in run.levels()] == [4, 32]
    assert run.facts.slo == ("e2e_p50 <= 4 s", "errors <= 1 %")


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"benchmarks": 3}', "a,b\n1,2\n", "users,latency\n1,2\n"])
@pytest.mark.parametrize("kind", ["", *IMPORTS])
def test_other_files_are_refused_with_a_hint(text: str, kind: str, tmp_path: Path) -> None:
    """Never with a traceback."""
    path = tmp_path / "file"
    path.write_text(text)

    with pytest.raises(ScenarioError) as caught:
        import_files([path], tmp_path, kind=kind, users=1)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("users,e2e_p50_s\n-4,1\n", "users is '-4', no number from 0 on"),
        ("users,e2e_p50_s\n0,1\n", "a level of 0 people for 60 s cannot have been"),
        ("users,e2e_p50_s\n4,nan\n", "e2e_p50_s is 'nan', no number from 0 on"),
        ("users,e2e_p50_s\n4,-1\n", "e2e_p50_s is '-1', no number from 0 on"),
        ("users,e2e_p50_s\n4,fast\n", "e2e_p50_s is 'fast', no number from 0 on"),
        ("users,waits\n4,1\n", "column 'waits'; known: "),
    ],
)
def test_figures_that_cannot_be_are_refused(table: str, message: str, tmp_path: Path) -> None:
    """The file, the column and what stands there; no exception's name."""
    file = tmp_path / "figures.csv"
    file.write_text(table)
    with pytest.raises(ScenarioError) as caught:
        import_files([file], tmp_path / "runs", kind="table")

    assert message in caught.value.message
    assert "Error" not in caught.value.message
    assert caught.value.hint


def test_streams_are_as_many_as_were_needed() -> None:
    """A request goes to the stream that waited longest; one more is opened only when all are busy."""
    asked = [Request(0, 1, 0, 1, scheduled_at_s=at, ended_at_s=at + 1.5) for at in (0.0, 1.0, 2.0, 3.0)]

    assert [(one.person, one.conversation) for one in in_streams(asked)] == [(1, 0), (2, 0), (1, 1), (2, 1)]
    assert peak_in_flight(asked) == 2
    assert [one.person for one in in_streams([msgspec.structs.replace(asked[0])], 3)] == [1]
