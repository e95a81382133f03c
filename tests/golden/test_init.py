"""What ``idlewin init`` writes of whole clusters: the text, word by word.

After a change that is meant: ``pytest tests/golden --update-golden``, and look at the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from idlewin.catalogue import SHIPPED
from idlewin.draft.facts import Wanted
from idlewin.draft.rules import drafted
from tests.golden import clusters

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", ["homelab", "box"])
def test_a_whole_cluster_comes_out_as_it_did(name: str, request: pytest.FixtureRequest) -> None:
    path = HERE / f"init-{name}.yaml"
    told = drafted(getattr(clusters, name)(), Wanted(), SHIPPED)
    beside = [*told.found, *(f"not known: {left}" for left in told.left)]
    found = told.text + "".join(f"# {line}\n" for line in beside)

    if request.config.getoption("--update-golden"):
        path.write_text(found)

    assert found == path.read_text()
