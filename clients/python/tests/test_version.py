from __future__ import annotations

import json
import tomllib
from pathlib import Path

import vicinal

ROOT = Path(__file__).parents[3]


def test_all_packages_have_the_version_of_the_service() -> None:
    version = json.loads((ROOT / "package.json").read_text())["version"]
    assert vicinal.__version__ == version
    integrations = list((ROOT / "integrations").glob("*-python/pyproject.toml"))
    assert integrations
    for file in integrations:
        project = tomllib.loads(file.read_text())["project"]
        assert project["version"] == version
        assert f"vicinal=={version}" in project["dependencies"]
