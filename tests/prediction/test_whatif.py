"""Predictions from hardware, calibrations and runs: right where the truth is known, plausible where it is changed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headcount.errors import NotTrustedError, RunError, ScenarioError
from headcount.measure import measure
from headcount.prediction import Change, Start, hardware_from, limit_of, predict, start_of_hardware
from headcount.prediction.calibration import Told
from headcount.prediction.cases import parse_case
from headcount.prediction.from_run import calibrate_run
from headcount.prediction.served import Served
from headcount.prediction.start import start_at
from headcount.report.progress import Progress
from headcount.review import review
from headcount.scenario import make_scenario
from headcount.simulator.profiles import PROFILES
from headcount.slo import parse_slo
from headcount.store import Run, open_run

CHAT = {"kind": "chat"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A search on a simulated server: 32 slots, answers that end early."""
    options = {"server": "home", "output_share": 0.8, "output_spread": 0.3}
    scenario = make_scenario({"engine": {"kind": "simulated", "options": options}, "workload": CHAT})
    with Progress(line_every_s=float("inf")) as progress:
        outcome = measure(
            scenario,
            verb="find",
            out=tmp_path_factory.mktemp("runs"),
            api_key=None,
            watcher=progress,
            agree=lambda _: True,
        )
    assert outcome is not None
    return open_run(outcome.path)


@pytest.fixture(scope="module")
def start(run: Run) -> Start:
    """From that run, with hardware that somebody told."""
    return start_at(run.path, told=Told(gpu="RTX 4060 Ti 16GB", model="Qwen3-8B-AWQ"))[0]


def hardware_start(**settings: object) -> Start:
    """Nothing measured."""
    return start_of_hardware(hardware_from("RTX 4090", "Qwen3-8B-AWQ"), **settings)  # type: ignore[arg-type]


def test_a_run_gives_the_constants_back(run: Run) -> None:
    """Steps with ordinary contexts within 8 % of the server's own; lengths of answers as they were."""
    true, found = PROFILES["home"].cost, calibrate_run(run)

    assert found.residual_fraction < 0.08
    for sequences in (1, 8, 32):
        expected, fitted = (
            cost.step_s(sequences, sequences, adapted=False) + 800 * sequences * cost.context_token_s
            for cost in (true, found.cost)
        )
        assert fitted == pytest.approx(expected, rel=0.08)
    assert sum(found.answer_share) / len(found.answer_share) == pytest.approx(0.8, abs=0.03)


def test_levels_that_were_left_out_are_foreseen(run: Run) -> None:
    """Median and tokens a second within 10 %."""
    checks = calibrate_run(run).checks

    assert checks
    for check in checks:
        assert abs(check.errors()["e2e_p50_s"]) < 0.10
        assert abs(check.errors()["output_tokens_per_s"]) < 0.10


def test_the_limit_that_was_measured_is_predicted(run: Run, start: Start) -> None:
    """Within two people, and the interval reaches it within one."""
    limit = review(run).limit_users
    predicted = limit_of(start, Change(), draws=6)

    assert limit is not None
    assert predicted.limit_users == pytest.approx(limit, abs=2)
    assert predicted.low_users - 1 <= limit <= predicted.high_users + 1
    assert predicted.binds == "slots"


def test_a_level_beside_the_simulated_engine(run: Run) -> None:
    """With the true constants a level without a clock shows what the session measured: median within 7 %."""
    profile, verdict = PROFILES["home"], review(run)
    served = Served(profile.cost, profile.policy, request_s=0.001)
    true = msgspec.structs.replace(start_at(run.path)[0], served=served)
    level = max(verdict.levels, key=lambda one: one.n_requests)

    assert predict(true, Change(), level.users, draws=0).figures.e2e_p50_s == pytest.approx(level.e2e_s.p50, rel=0.07)


def test_predictions_repeat_themselves(start: Start) -> None:
    """The same question gets the same answer."""
    assert predict(start, Change(), 12, draws=3) == predict(start, Change(), 12, draws=3)


@pytest.mark.parametrize(
    ("case", "faster"),
    [
        ("gpu=RTX 5090", True),
        ("gpus=2", True),
        ("model=Qwen3-0.6B-AWQ", True),
        ("model=Qwen3-14B-AWQ", False),
        ("power-limit=100", False),
        ("prompt-tokens=1500", False),
        ("with=Qwen3-0.6B-AWQ,share=50%", False),
    ],
)
def test_changes_go_the_right_way(case: str, faster: bool, start: Start) -> None:
    """More bandwidth, more cards and fewer parameters answer sooner; less power, longer prompts, company do not."""
    before = predict(start, Change(), 12, draws=4)
    after = predict(start, parse_case(case).change, 12, draws=4)

    assert before.e2e_p50_s is not None
    assert after.e2e_p50_s is not None
    assert (after.e2e_p50_s.value < before.e2e_p50_s.value) == faster
    assert after.e2e_p50_s.low <= after.e2e_p50_s.value <= after.e2e_p50_s.high


def test_other_hardware_is_less_certain(start: Start) -> None:
    """A card from its datasheet widens the interval of one that was measured."""

    def width(case: Change) -> float:
        estimate = predict(start, case, 12, draws=12).e2e_p50_s
        assert estimate is not None
        return estimate.high / estimate.low

    assert width(parse_case("gpu=RTX 5090").change) > 1.3 * width(Change())


def test_a_second_card_for_the_second_model_spares_the_first(start: Start) -> None:
    """On cards of its own it only takes its people along."""
    alone = predict(start, Change(), 12, draws=0).figures
    apart = predict(start, parse_case("with=Qwen3-0.6B-AWQ,with-gpu=RTX 4090").change, 12, draws=0).figures
    together = predict(start, parse_case("with=Qwen3-0.6B-AWQ").change, 12, draws=0).figures

    assert apart.e2e_p50_s is not None
    assert alone.e2e_p50_s is not None
    assert together.e2e_p50_s is not None
    assert apart.e2e_p50_s < alone.e2e_p50_s < together.e2e_p50_s


def test_what_binds_is_told() -> None:
    """Few slots, little memory, long prompts, or the reading of weights."""
    few = limit_of(hardware_start(slots=4), Change(), draws=0)
    rag = limit_of(hardware_start(workload={"kind": "rag"}), Change(), draws=0)
    alone = predict(hardware_start(), Change(), 4, draws=0)
    tight = start_of_hardware(hardware_from("RTX 4060", "Qwen3-8B-AWQ"), context_tokens=2048)

    assert few.binds == "slots"
    assert rag.binds in ("compute", "kv-memory")
    assert alone.figures.binds == "bandwidth"
    assert limit_of(tight, Change(), draws=0).binds == "kv-memory"


def test_hardware_nobody_told_cannot_be_exchanged(run: Run) -> None:
    """The run does not say its GPU; the error says how to."""
    start, _ = start_at(run.path)
    with pytest.raises(ScenarioError, match="nobody told") as caught:
        predict(start, parse_case("gpus=2").change, 4)

    assert "--gpu" in caught.value.hint


def test_what_does_not_fit_is_refused_with_what_would() -> None:
    """Before anything is simulated."""
    with pytest.raises(ScenarioError, match="does not fit onto RTX 4090") as caught:
        start_of_hardware(hardware_from("RTX 4090", "Qwen3-32B"))

    assert "awq" in caught.value.hint
    assert "x RTX 4090" in caught.value.hint
    with pytest.raises(ScenarioError, match="a context of 1000000 tokens does not fit"):
        predict(hardware_start(), Change(context_tokens=1_000_000), 4)
    with pytest.raises(ScenarioError, match="too few"):
        predict(hardware_start(), Change(power_limit_w=50.0), 4)


def test_a_start_must_be_there_and_be_trusted(tmp_path: Path, run: Run) -> None:
    """No path, no run, and a calibration whose residuals are too large."""
    from headcount.prediction.calibration import write_calibration

    with pytest.raises(RunError, match="is not there"):
        start_at(tmp_path / "nothing")
    with pytest.raises(RunError, match="is not a run folder"):
        start_at(tmp_path)
    bad = msgspec.structs.replace(calibrate_run(run), residual_fraction=0.2)
    write_calibration(bad, tmp_path / "bad.toml")
    with pytest.raises(NotTrustedError, match="20%"):
        start_at(tmp_path / "bad.toml")


def test_nobody_is_served_where_one_person_waits_too_long() -> None:
    """The limit is 0, and something binds."""
    start = hardware_start(slo="ttft_p95<=1ms")
    found = limit_of(start, Change(), draws=0)

    assert found.limit_users == 0
    assert found.worst_clause == "ttft_p95 <= 0.001 s"
    assert parse_slo("ttft_p95<=1ms")[0] in start.slo
