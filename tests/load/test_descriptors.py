"""The soft limit of open files gives way; the hard one is told."""

import resource

import pytest

from headcount.load import descriptors
from headcount.load.descriptors import descriptor_limit, raise_descriptor_limit


def test_the_soft_limit_becomes_the_hard_one() -> None:
    """No rights are needed for that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard - 1), hard))
    try:
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert descriptor_limit() == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_a_limit_a_sane_number_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS says there is no hard limit, and refuses to be taken at its word."""
    unlimited = (256, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _: unlimited)

    assert descriptor_limit() == descriptors.WHERE_UNLIMITED
