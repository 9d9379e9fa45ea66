from pathlib import Path

import pytest

HERE = Path(__file__).parent
WHY = "needs the database nodes of `-p tests.citus.plugin`: make test-citus"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without its plugin there is no cluster, which is said."""
    if config.pluginmanager.has_plugin("tests.citus.plugin"):
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=WHY))
