"""Runs that the tests of this folder share."""

from collections.abc import Iterator

import pytest

from local.harness import Finished, Runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    runs = Runs(tmp_path_factory.mktemp("local"))
    yield runs
    runs.close()


@pytest.fixture(scope="module")
def plain(runs: Runs) -> Finished:
    """The run that nothing happens to."""
    finished = runs.start(name="plain").finish()
    assert finished.code == 0, finished.output
    return finished
