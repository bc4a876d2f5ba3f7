"""The run folder survives what happens to files: killed writers, full disks, damage, strangers, two writers."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from headcount.codec import decode_request, encode_request, encode_sample
from headcount.errors import RunError
from headcount.records import FORMAT_VERSION, EngineFacts, Level, Request, RunFacts, Sample
from headcount.store import Run, RunWriter, open_run

FACTS = RunFacts(
    format_version=FORMAT_VERSION,
    headcount_version="0.1.0",
    verb="find",
    started_utc="2026-12-01T10:14:03Z",
    seed=1,
    engine=EngineFacts(engine="simulated", model="tiny"),
    slo=("ttft_p95 <= 2 s", "errors <= 1 %"),
    simulated=True,
)


def request(ended_at_s: float, level: int = 0, chunks: int = 3) -> Request:
    return Request(
        level=level,
        person=1,
        conversation=0,
        turn=1,
        scheduled_at_s=ended_at_s - 1.0000001,
        ended_at_s=ended_at_s,
        chunk_at_s=[ended_at_s - 0.5 + n * 0.001234567 for n in range(chunks)],
        output_tokens=chunks,
        token_source="server",
    )


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter.create(tmp_path / "runs", "lunch peak", FACTS, 'name = "lunch peak"\n')


def ended(run: Run, level: int | None = None) -> list[float]:
    return [one.ended_at_s for one in run.requests(level)]


def test_what_was_written_is_read_back(writer: RunWriter) -> None:
    """Facts, scenario, levels, requests and samples come back; times are kept to a microsecond."""
    writer.level(Level(index=0, users=4, began_at_s=0.0))
    writer.level(Level(index=1, users=8, began_at_s=9.0))
    writer.level(Level(index=0, users=4, began_at_s=0.0, stopped_at_s=8.0, ended="decided"))
    writer.request(request(5.0, chunks=40))
    writer.samples([Sample(at_s=1.0, name="gpu_power_w", value=251.5, of="GPU-1")])
    writer.close()

    run = open_run(writer.path)

    assert writer.path.name == "2026-12-01T10-14-03-lunch-peak"
    assert run.facts == FACTS
    assert run.scenario_text == 'name = "lunch peak"\n'
    assert [(level.users, level.ended) for level in run.levels()] == [(4, "decided"), (8, "")]
    (back,) = run.requests()
    assert back.chunk_at_s == pytest.approx(request(5.0, chunks=40).chunk_at_s, abs=1e-6)
    assert [sample.value for sample in run.samples()] == [251.5]
    assert run.damage_sentence() is None


def test_an_existing_folder_is_never_touched(tmp_path: Path) -> None:
    """Two runs begun in the same second get two folders."""
    paths = []
    for _ in range(2):
        with RunWriter.create(tmp_path, "x", FACTS, "") as writer:
            paths.append(writer.path.name)

    assert paths == ["2026-12-01T10-14-03-x", "2026-12-01T10-14-03-x-2"]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("점심 시간", "점심-시간"),
        ("", "run"),
        ("a" * 300, "a" * 60),
        ("\x1b[2J", "2J"),
    ],
)
def test_no_name_leaves_the_parent_folder(tmp_path: Path, name: str, folder: str) -> None:
    """Whatever a scenario is called, its folder is one component below the parent."""
    with RunWriter.create(tmp_path, name, FACTS, "") as writer:
        assert writer.path == tmp_path / f"2026-12-01T10-14-03-{folder}"


def test_an_unwritable_place_is_a_run_error_with_a_hint(tmp_path: Path) -> None:
    """A file where the folder should be: one sentence, and the flag that helps."""
    (tmp_path / "file").write_text("")

    with pytest.raises(RunError, match="cannot make a run folder") as caught:
        RunWriter.create(tmp_path / "file", "x", FACTS, "")

    assert "--out" in caught.value.hint


def test_load_processes_are_merged_in_time(writer: RunWriter) -> None:
    """Each process has its file; half a line waits for its rest; reading goes by the end of requests."""
    lines = b"".join(encode_request(request(at_s)) for at_s in (1.0, 3.0, 5.0))
    writer.requests(lines[:150], 1)
    writer.flush()
    writer.requests(lines[150:], 1)
    writer.requests(encode_request(request(2.0)) + encode_request(request(4.0)), 2)
    writer.close()

    assert ended(open_run(writer.path)) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert sorted(file.name for file in writer.path.glob("*.jsonl")) == ["requests-1.jsonl", "requests-2.jsonl"]


def test_one_level_can_be_read_alone(writer: RunWriter) -> None:
    """Level 1 is not taken for level 12, nor the other way round."""
    for at_s, level in ((1.0, 1), (2.0, 12), (3.0, 1)):
        writer.request(request(at_s, level))
    writer.close()

    run = open_run(writer.path)

    assert ended(run, 1) == [1.0, 3.0]
    assert ended(run, 12) == [2.0]
    assert ended(run, 2) == []


def test_missing_files_are_an_early_kill(writer: RunWriter) -> None:
    """A run killed before its first level has only run.json and the scenario."""
    writer.close()
    run = open_run(writer.path)

    assert (run.levels(), list(run.requests()), list(run.samples())) == ([], [], [])


def test_a_killed_writer_loses_only_what_it_had_not_flushed(tmp_path: Path) -> None:
    """kill -9 in mid-run: everything flushed is read, and the run goes on where it stopped."""
    program = f"""
import os, sys, tests.test_store as t
from pathlib import Path
writer = t.RunWriter.create(Path({str(tmp_path)!r}), "killed", t.FACTS, "")
for n in range(1, 101):
    writer.request(t.request(float(n)))
writer.flush()
writer.request(t.request(200.0))
with open(writer.path / "requests.jsonl", "ab") as file:
    file.write(b'{{"level":0,"pers')
print(writer.path, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    path = Path(done.stdout.strip())

    assert done.returncode == -9
    run = open_run(path)
    assert ended(run) == [float(n) for n in range(1, 101)]
    assert run.damage_sentence() is None

    writer, run = RunWriter.resume(path)
    with writer:
        writer.request(request(300.0))
    assert ended(run)[-2:] == [100.0, 300.0]
    assert run.damage_sentence() is None


def test_two_writers_are_kept_apart(writer: RunWriter) -> None:
    """A run that still goes on cannot be resumed; once its writer has closed, it can."""
    with pytest.raises(RunError, match="still writes"):
        RunWriter.resume(writer.path)
    writer.close()
    again, _ = RunWriter.resume(writer.path)
    again.close()


def test_a_damaged_line_is_counted_and_named(writer: RunWriter) -> None:
    """Damage in the middle costs its own lines only, and is told once however often one reads."""
    for at_s in (1.0, 2.0, 3.0):
        writer.request(request(at_s))
    writer.close()
    file = writer.path / "requests.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"\x00\xff\x00\n" + lines[1] + b'{"level":0}\n' + lines[2])

    run = open_run(writer.path)

    assert ended(run) == ended(run) == [1.0, 2.0, 3.0]
    assert run.damage_sentence() == "2 damaged lines left out: requests.jsonl line 2, requests.jsonl line 4"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("levels.jsonl", b'{"index":1,"users":-4,"began_at_s":1.0}'),
        ("levels.jsonl", b'{"index":-1,"users":4,"began_at_s":1.0}'),
        ("levels.jsonl", b'{"index":1,"users":4,"began_at_s":9.0,"stopped_at_s":1.0}'),
        ("levels.jsonl", b'{"index":1,"users":4,"began_at_s":1e300}'),
        (
            "requests.jsonl",
            b'{"level":0,"person":1,"conversation":0,"turn":1,"scheduled_at_s":9.0,"ended_at_s":1.0}',
        ),
        (
            "requests.jsonl",
            b'{"level":0,"person":1,"conversation":0,"turn":1,"scheduled_at_s":1.0,"ended_at_s":2.0,'
            b'"output_tokens":-3}',
        ),
        (
            "requests.jsonl",
            b'{"level":0,"person":1,"conversation":0,"turn":1,"scheduled_at_s":1.0,"ended_at_s":2.0,'
            b'"chunk_at_s":[0.2,1.5]}',
        ),
        ("samples.jsonl", b'{"at_s":-5.0,"name":"gpu_power_w","value":1.0}'),
        ("samples.jsonl", b"\x00\x01\x02"),
    ],
)
def test_what_cannot_be_is_damage(name: str, line: bytes, writer: RunWriter) -> None:
    """Facts that contradict themselves are left out and told, whatever file they stand in."""
    writer.level(Level(index=0, users=4, began_at_s=0.0))
    writer.request(request(5.0))
    writer.samples([Sample(1.0, "gpu_power_w", 300.0)])
    writer.close()
    with (writer.path / name).open("ab") as file:
        file.write(line + b"\n")

    run = open_run(writer.path)
    assert (len(run.levels()), len(list(run.requests())), len(list(run.samples()))) == (1, 1, 1)
    assert run.damage_sentence() == f"1 damaged line left out: {name} line 2"


def test_samples_that_are_none_do_not_take_the_answer(writer: RunWriter) -> None:
    """A file of samples without one readable line is told of, with or without an end to its line."""
    writer.close()
    for rubbish in (b"\x00\xff" * 500, b"\x00\xff\n" * 500):
        (writer.path / "samples.jsonl").write_bytes(rubbish)
        run = open_run(writer.path)

        assert list(run.samples()) == []
        assert "samples.jsonl line 1" in (run.damage_sentence() or "")


def test_a_start_that_is_no_time_is_a_run_error(writer: RunWriter) -> None:
    """Everything that shows a run shows when it began."""
    writer.close()
    file = writer.path / "run.json"
    for when in ("yesterday", "0001-01-01T00:00:00+23:59"):
        file.write_bytes(file.read_bytes().replace(b"2026-12-01T10:14:03Z", when.encode()))
        with pytest.raises(RunError, match=r"run\.json"):
            open_run(writer.path)
        file.write_bytes(file.read_bytes().replace(when.encode(), b"2026-12-01T10:14:03Z"))


def test_a_foreign_file_is_refused(writer: RunWriter) -> None:
    """A file without one readable line is not ours, and silence about it would be a wrong answer."""
    writer.close()
    (writer.path / "requests.jsonl").write_text("time,latency\n" * 500)

    with pytest.raises(RunError, match="not one line can be read"):
        list(open_run(writer.path).requests())


def test_a_newer_format_is_refused_with_a_hint(writer: RunWriter) -> None:
    """Even when nothing else of it is understood."""
    writer.close()
    (writer.path / "run.json").write_bytes(b'{"format_version": 99, "facts": []}')

    with pytest.raises(RunError, match="run format 99") as caught:
        open_run(writer.path)

    assert "newer headcount" in caught.value.hint


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b'{"format_version": "x"}', b"\xff\xfe", b'{"format_version": 1}']
)
def test_a_damaged_run_json_is_a_run_error(writer: RunWriter, raw: bytes) -> None:
    """No damage there ends in a traceback."""
    writer.close()
    (writer.path / "run.json").write_bytes(raw)

    with pytest.raises(RunError, match=r"run\.json"):
        open_run(writer.path)


def test_a_folder_that_is_no_run_is_told_apart(writer: RunWriter, tmp_path: Path) -> None:
    """The parent folder's hint names the newest run in it."""
    writer.close()
    with pytest.raises(RunError, match="not a run folder") as caught:
        open_run(writer.path.parent)
    assert writer.path.name in caught.value.hint

    with pytest.raises(RunError, match="not a run folder"):
        open_run(tmp_path / "nowhere")


def test_a_full_disk_is_an_error_and_no_damage(writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk did not take is written by the next flush, from the very byte where it stopped."""
    writer.request(request(1.0))
    writer.request(request(2.0))
    raw = writer._files["requests.jsonl"]._file

    class FullDisk:
        def __init__(self) -> None:
            self.room_bytes = 100

        def write(self, data: bytes) -> int:
            if not self.room_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            taken = raw.write(data[: self.room_bytes])
            self.room_bytes = 0
            return taken

    with monkeypatch.context() as patched:
        patched.setattr(writer._files["requests.jsonl"], "_file", FullDisk())
        with pytest.raises(RunError, match="No space left") as caught:
            writer.flush()
    assert "--resume" in caught.value.hint
    writer.close()

    assert ended(open_run(writer.path)) == [1.0, 2.0]


def test_numbers_that_json_does_not_know_are_left_out() -> None:
    """A sample that is not finite gives no line."""
    assert encode_sample(Sample(at_s=0.0, name="x_w", value=float("nan"))) == b""
    assert encode_sample(Sample(at_s=0.0, name="x_bytes", value=2.0**40)).endswith(b'"value":1099511627776.0}\n')


def test_a_request_is_encoded_quickly_and_short() -> None:
    """128 chunks: six decimals each, and far below a millisecond (about 20 µs on a quiet core)."""
    one = request(1234.567890123, chunks=128)
    began_s = time.perf_counter()
    for _ in range(200):
        line = encode_request(one)
    each_s = (time.perf_counter() - began_s) / 200

    assert len(line) < 128 * 12 + 200
    assert decode_request(line).chunk_at_s == pytest.approx(one.chunk_at_s, abs=1e-6)
    assert each_s < 1e-3


def test_a_run_folder_of_format_1_opens() -> None:
    """A folder as version 0.1.0 wrote it; kept for ever."""
    run = open_run(Path(__file__).parent / "data" / "run-format-1")

    assert run.facts.engine.model == "tiny"
    assert [level.users for level in run.levels()] == [4, 8]
    assert len(list(run.requests())) == 3
    assert next(run.requests()).server == {"queue_s": 0.012}
    assert [sample.name for sample in run.samples()] == ["gpu_power_w"]


def test_unknown_fields_of_a_later_minor_version_are_passed_over() -> None:
    """Within one format version fields may be added, and old readers go on."""
    line = msgspec.json.decode(encode_request(request(1.0)))
    line["a_later_field"] = {"x": 1}

    assert decode_request(msgspec.json.encode(line)).ended_at_s == 1.0
