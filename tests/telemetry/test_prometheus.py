"""GPUs of another machine through an exporter's page, served by a small real HTTP server."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from headcount.records import Gpu
from headcount.telemetry.prometheus import Prometheus

LABELS = (
    'gpu="0",UUID="GPU-a1",pci_bus_id="00000000:65:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",'
    'Hostname="node7",DCGM_FI_DRIVER_VERSION="550.54.15"'
)
DCGM = f"""\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{{{LABELS}}} 1410
DCGM_FI_DEV_MEM_CLOCK{{{LABELS}}} 1593
DCGM_FI_DEV_GPU_TEMP{{{LABELS}}} 63
DCGM_FI_DEV_POWER_USAGE{{{LABELS}}} 387.512
DCGM_FI_DEV_POWER_MGMT_LIMIT{{{LABELS}}} 400
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{LABELS}}} 5000
DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{LABELS}}} 0
DCGM_FI_DEV_GPU_UTIL{{{LABELS}}} 97
DCGM_FI_DEV_MEM_COPY_UTIL{{{LABELS}}} 44
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{LABELS}}} 4
DCGM_FI_DEV_FB_FREE{{{LABELS}}} 1000
DCGM_FI_DEV_FB_USED{{{LABELS}}} 80000
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{LABELS}}} 1
DCGM_FI_DEV_GPU_TEMP{{gpu="1",UUID="GPU-b2",modelName="NVIDIA L4"}} 40
DCGM_FI_DEV_POWER_USAGE{{gpu="1",UUID="GPU-b2",modelName="NVIDIA L4" nonsense
DCGM_FI_DEV_GPU_TEMP 12
up 1
"""

NVIDIA_SMI = """\
nvidia_smi_gpu_info{driver_version="595.71.05",name="NVIDIA GeForce RTX 4090",uuid="df6e7a7c"} 1
nvidia_smi_utilization_gpu_ratio{uuid="df6e7a7c"} 0.5
nvidia_smi_memory_used_bytes{uuid="df6e7a7c"} 2e9
nvidia_smi_memory_total_bytes{uuid="df6e7a7c"} 24e9
nvidia_smi_power_draw_watts{uuid="df6e7a7c"} 300
nvidia_smi_power_default_limit_watts{uuid="df6e7a7c"} 450
"""


class _Exporter(http.server.ThreadingHTTPServer):
    """Serves ``page`` at ``/metrics`` with ``status``."""

    page = ""
    status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Exporter)
        found = self.path == "/metrics"
        self.send_response(self.server.status if found else 404)
        self.end_headers()
        self.wfile.write(self.server.page.encode() if found else b"")

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def exporter() -> Iterator[_Exporter]:
    """On a free loopback port, until the test ends."""
    with _Exporter(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_dcgm_names_become_ours(exporter: _Exporter) -> None:
    """MHz, MiB, mJ and percent become hertz, bytes, joules and fractions; a malformed line costs only itself."""
    exporter.page = DCGM
    source = Prometheus(exporter.url)

    assert source.open() is None

    assert source.gpus == (
        Gpu(
            uuid="GPU-a1",
            name="NVIDIA A100-SXM4-80GB",
            memory_total_bytes=81000 * 1024 * 1024,
            power_limit_w=400.0,
            driver="550.54.15",
        ),
        Gpu(uuid="GPU-b2", name="NVIDIA L4"),
    )
    found = {(s.of.partition(":")[0], s.name): s.value for s in source.read(3.0)}
    assert {name: value for (of, name), value in found.items() if of == "GPU-a1"} == {
        "gpu_utilization_fraction": 0.97,
        "gpu_memory_busy_fraction": 0.44,
        "gpu_memory_used_bytes": 80000.0 * 1024 * 1024,
        "gpu_power_w": 387.512,
        "gpu_power_limit_w": 400.0,
        "gpu_energy_j_total": 5.0,
        "gpu_temperature_c": 63.0,
        "gpu_sm_clock_hz": 1.41e9,
        "gpu_memory_clock_hz": 1.593e9,
        "gpu_pcie_replays_total": 0.0,
        "gpu_ecc_uncorrected_errors_total": 1.0,
        "gpu_throttled": 1.0,
    }
    assert {name: value for (of, name), value in found.items() if of == "GPU-b2"} == {"gpu_temperature_c": 40.0}
    source.close()


def test_another_exporters_names_become_ours(exporter: _Exporter) -> None:
    """``nvidia_gpu_exporter``, whose UUIDs lack their prefix."""
    exporter.page = NVIDIA_SMI
    source = Prometheus(exporter.url + "/metrics")

    assert source.open() is None

    assert source.gpus == (
        Gpu(
            uuid="GPU-df6e7a7c",
            name="NVIDIA GeForce RTX 4090",
            memory_total_bytes=24_000_000_000,
            power_default_limit_w=450.0,
            driver="595.71.05",
        ),
    )
    assert {s.name: s.value for s in source.read(1.0)} == {
        "gpu_utilization_fraction": 0.5,
        "gpu_memory_used_bytes": 2e9,
        "gpu_power_w": 300.0,
    }


@pytest.mark.parametrize(
    ("path", "status", "page", "why"),
    [
        ("", 200, "up 1\n", "no known name"),
        ("", 401, "", "HTTP 401"),
        ("/other", 200, DCGM, "HTTP 404"),
        ("", 200, "\0\xff{{{", "no known name"),
    ],
)
def test_why_nothing_is_watched(exporter: _Exporter, path: str, status: int, page: str, why: str) -> None:
    """A page of something else, a protected or a missing one: one sentence."""
    exporter.page, exporter.status = page, status

    said = Prometheus(exporter.url + path).open()

    assert said is not None
    assert why in said


def test_an_exporter_that_goes_away_gives_no_samples(exporter: _Exporter) -> None:
    """In mid-run: no exception, no zeros; it may come back."""
    exporter.page = DCGM
    source = Prometheus(exporter.url)
    assert source.open() is None

    exporter.status = 503
    assert source.read(1.0) == []

    exporter.status = 200
    assert source.read(2.0) != []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://"])
def test_an_address_of_nobody_is_said(url: str) -> None:
    """Refused, or no address at all."""
    assert (Prometheus(url).open() or "").startswith("no GPU metrics from")
