"""Aligned messages of two programs: Airflow's interface and Django's."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from formats import Row, gzipped, json_lines
from packages import Files, Package, Packages
from page_text import inline
from pairs import clean_pairs

LOCALES = "airflow/ui/dist/i18n/locales/"
AIRFLOW = Package(
    "pip",
    "apache-airflow-core",
    "3.3.2",
    (LOCALES + "en/*.json", LOCALES + "zh-CN/*.json", "*/licenses/*"),
)
DJANGO = Package("pip", "django", "5.2.8", ("*/zh_Hans/LC_MESSAGES/django*.po", "*/licenses/LICENSE"))


def leaves(tree: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Every string of a nested locale file with its dotted key."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{key}.")
        elif isinstance(value, str):
            yield path + key, value


def airflow_pairs(packages: Packages) -> list[Row]:
    """Apache Airflow's user interface in both languages."""
    files = packages.files(AIRFLOW)
    rows = []
    for name, data in files.items():
        if name.startswith(LOCALES + "en/"):
            chinese = dict(leaves(json.loads(files[name.replace("/en/", "/zh-CN/")])))
            file = "airflow/" + Path(name).name
            rows += [
                {"id": f"{file}#{key}", "en": text, "zh": chinese.get(key, ""), "file": file}
                for key, text in leaves(json.loads(data))
            ]
    return rows


def django_pairs(packages: Packages) -> list[Row]:
    """Django's messages; the key of a message is its English text."""
    entry = re.compile(r'^msgid ((?:".*"\n)+)msgstr ((?:".*"\n)+)', re.M)
    rows = []
    for name, data in packages.files(DJANGO).items():
        file = "/".join(Path(name).parts[:-4]) + "/" + Path(name).name
        fuzzy_free = re.sub(r"^#, .*fuzzy[^\n]*\n(?:[^\n]+\n)*", "", data.decode(), flags=re.M)
        for number, match in enumerate(entry.finditer(fuzzy_free) if name.endswith(".po") else []):
            english, chinese = (
                "".join(ast.literal_eval(line) for line in part.splitlines()) for part in match.groups()
            )
            rows.append({"id": f"{file}#{number}", "en": inline(english), "zh": inline(chinese), "file": file})
    return rows


def interface_pairs(packages: Packages) -> Files:
    """Short messages of two programs, each with its own licence."""
    airflow, django = packages.files(AIRFLOW), packages.files(DJANGO)
    rows = clean_pairs(airflow_pairs(packages) + django_pairs(packages))
    licences = {name: data for files in (airflow, django) for name, data in files.items() if "/licenses/" in name}
    made = {"pairs.jsonl.gz": gzipped(json_lines(rows))}
    for name, data in licences.items():
        owner = "django" if name.startswith("django") else "airflow"
        if Path(name).name in ("LICENSE", "NOTICE"):
            made[f"{Path(name).name}-{owner}"] = data
    return made
