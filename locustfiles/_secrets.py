"""The API key, which goes into the requests' header and nowhere else; and what of the extras may be written down.

The rules are those of `engines._secrets`, which the load must not import; a test holds both to the same.
"""

from __future__ import annotations

import os
import re
from typing import Any

from locustfiles._options import UsageError

SECRET = re.compile(r"key|token$|secret|passw|credential|authorization", re.IGNORECASE)
HIDDEN = "***"


def api_key() -> str | None:
    """The key from the environment; None where there is none.

    Raises:
        UsageError: it cannot be put in a header; one line that does not show it.
    """
    for name in ("ENGINEBENCH_API_KEY", "OPENAI_API_KEY"):
        if key := os.environ.get(name):
            # The error of an encoder would quote the whole header.
            for place, char in enumerate(key, start=1):
                if not "!" <= char <= "~":
                    raise UsageError(
                        f"{name}: character {place} of the key is a space, a control character or not ASCII"
                        " (a copied dash or ellipsis?); set the key again"
                    )
            return key
    return None


def shown(value: Any) -> Any:
    """Request extras as scenario.json may hold them: what a name that looks like a secret's holds is hidden."""
    if isinstance(value, dict):
        return {
            name: HIDDEN if SECRET.search(name) and item is not None else shown(item) for name, item in value.items()
        }
    return [shown(item) for item in value] if isinstance(value, list) else value
