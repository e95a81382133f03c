"""The wiring: what is refused before anything is reached."""

import pytest

from idlewin.errors import UsageError
from idlewin.options import Options
from idlewin.wiring import dry_run, explaining, live


@pytest.mark.parametrize("mode", [live, dry_run, explaining])
def test_a_missing_prometheus_is_told_before_the_cluster_is_looked_for(mode):
    with pytest.raises(UsageError, match=r"--prometheus http://HOST:9090"):
        mode(Options())
