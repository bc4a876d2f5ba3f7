"""The plan's configuration files, written to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headcount.deployment.advice import Advice
from headcount.deployment.capacity import Measured
from headcount.deployment.launch import keys_file, launch_script
from headcount.deployment.litellm import litellm_config
from headcount.deployment.mixture import mix_scenario
from headcount.deployment.places import Place
from headcount.deployment.proxies import haproxy_config, nginx_config
from headcount.errors import RunError
from headcount.scenario import encode_scenario

__all__ = ["plan_files", "write_files"]

GATEWAY_URL = "http://127.0.0.1:4000"


def plan_files(advice: Advice, measured: Sequence[Measured], places: Sequence[Place]) -> dict[str, str]:
    """Their texts by name. No key stands in any of them."""
    return {
        "config.yaml": litellm_config(places),
        "nginx.conf": nginx_config(places),
        "haproxy.cfg": haproxy_config(places),
        "launch.sh": launch_script(places, measured),
        "keys.env": keys_file(places),
        "mix.toml": encode_scenario(mix_scenario(advice, measured, GATEWAY_URL)),
    }


def write_files(folder: Path, files: dict[str, str]) -> list[Path]:
    """Write them. A ``keys.env`` that is there is kept: it may be filled in. Raises ``RunError``."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = folder / name
            if name == "keys.env":
                if path.exists():
                    continue
                path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise RunError(f"cannot write {error.filename}: {error.strerror or error}", "choose another folder") from error
    return written
