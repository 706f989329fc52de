import json
from collections.abc import Mapping
from typing import Any

import pytest

from kueue_flux.api.minicluster import MiniCluster


@pytest.fixture(scope="package", autouse=True)
def parsed_once() -> Any:
    """Parse each specification once: parsing is pure, and would be most of the time of a thousand turns."""
    parse, known = MiniCluster.from_object, {}

    def remembered(obj: Mapping[str, Any]) -> MiniCluster:
        meta = obj["metadata"]
        key = json.dumps([meta["name"], meta.get("uid"), meta.get("generation"), meta.get("labels"), obj["spec"]])
        if key not in known:
            known[key] = parse(obj)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MiniCluster, "from_object", remembered)
        yield
