"""Reads the dashboards with Grafana's own SDK and writes them again: what its schema does not know gets lost on the way.

Usage: check-dashboards.py FILE...    (make check-dashboards installs the SDK)
"""

import json
import sys

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

# Fields of the Prometheus data source, which the schema of dashboards leaves to it.
OF_THE_DATA_SOURCE = {
    ".annotations.list[].step", ".annotations.list[].tagKeys", ".annotations.list[].titleFormat",
    ".annotations.list[].useValueForTime", ".templating.list[].definition",
}


def lost(before, after, path=""):
    """Yields the paths of what is in before and not the same in after."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{path}.{key}"
            else:
                yield from lost(value, after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield path
        for x, y in zip(before, after):
            yield from lost(x, y, path + "[]")
    elif before != after:
        yield path


def main(files):
    plugins.register_default_plugins()
    wrong = 0
    for name in files:
        with open(name, encoding="utf-8") as f:
            before = json.load(f)
        after = json.loads(json.dumps(dashboard.Dashboard.from_json(before), cls=JSONEncoder))
        paths = set(lost(before, after)) - OF_THE_DATA_SOURCE
        for path in sorted(paths):
            print(f"{name}: {path} is not in Grafana's schema")
        wrong += len(paths)
        print(f"{name}: {len(before['panels'])} panels and headings, {len(paths)} wrong")
    # The check itself must be able to fail.
    mistake = {"title": "x", "panels": [{"type": "stat", "title": "y", "tittle": "z"}]}
    again = json.loads(json.dumps(dashboard.Dashboard.from_json(mistake), cls=JSONEncoder))
    if ".panels[].tittle" not in set(lost(mistake, again)):
        print("a misspelt field was not noticed: the check is worth nothing")
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
