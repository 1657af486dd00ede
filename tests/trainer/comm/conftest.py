from collections.abc import Iterator

import pytest

from trainer.comm.ranks import Crew


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """The ranks of one module's tests."""
    with Crew() as crew:
        yield crew
