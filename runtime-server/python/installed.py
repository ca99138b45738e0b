import json
import re
from importlib import metadata

lines = set()
for distribution in metadata.distributions():
    name = distribution.metadata["Name"]
    if name:
        lines.add(re.sub(r"[-_.]+", "-", name).lower() + "==" + distribution.version)
print(json.dumps(sorted(lines)))
