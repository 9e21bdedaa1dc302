"""Worker script of `driver.cross_check`: gives math-verify's verdict on each line of stdin. May run in another Python.

A line is {"gold", "completion"}; the reply is `true`, `false` or `null` (unknown). The first reply is
`"ready"`, or `"absent"` where the package is not installed.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Reply to each line until stdin ends."""
    out = sys.stdout
    sys.stdout = sys.stderr  # the library's own output must not mix with replies
    try:
        from math_verify import parse, verify  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        out.write('"absent"\n')
        out.flush()
        return
    out.write('"ready"\n')
    out.flush()
    for line in sys.stdin:
        row = json.loads(line)
        try:
            reply = bool(verify(parse(row["gold"]), parse(row["completion"])))
        except Exception:  # noqa: BLE001, RUF100 (any error of sympy means unknown)
            reply = None
        out.write(json.dumps(reply) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
