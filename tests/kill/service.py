# SPDX-License-Identifier: BSD-2-Clause
"""The clinic's service: what takes effect there is written to the disk, and survives every process."""

import json
import os
from pathlib import Path


class Service:
    """Honours idempotency keys: a request under a known key takes no second effect."""

    def __init__(self, path: str):
        self._path = Path(path)

    @property
    def effects(self) -> list[dict[str, str]]:
        """What took effect, oldest first."""
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def request(self, key: str, what: str) -> None:
        """Take effect, once for each key."""
        if any(effect["key"] == key for effect in self.effects):
            return
        with self._path.open("a") as file:
            file.write(json.dumps({"key": key, "what": what}) + "\n")
            file.flush()
            os.fsync(file.fileno())
