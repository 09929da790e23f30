"""Make the shipped sample corpus again, byte for byte, from pinned distribution packages.

    python samples/make_samples.py --work DIR            write the sources beside this script
    python samples/make_samples.py --work DIR --check    build in DIR and compare with what is committed

It needs ``apt-get`` and ``dpkg-deb`` (Debian 12), ``npm`` and ``pip`` on the path, and pyarrow and
selectolax. Downloads stay in DIR and are used again. ``support-notes`` was written by hand for this
corpus, so it is an input here and never overwritten. README.md says what each source is and why it is here.
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from chinese import builder, kicad, poems
from english import python_docs, rust_book, rust_guides
from interface import interface_pairs
from nights import nightly
from office_help import office_pairs, office_prose
from packages import Files, Packages

HERE = Path(__file__).resolve().parent

SOURCES: dict[str, Callable[[Packages], Files]] = {
    "rust-book": rust_book,
    "rust-guides": rust_guides,
    "python-docs": python_docs,
    "poems": poems,
    "kicad-zh": kicad,
    "office-zh": office_prose,
    "builder-zh": builder,
    "office-pairs": office_pairs,
    "interface-pairs": interface_pairs,
    "nightly": nightly,
}


def write(files: Files, folder: Path) -> None:
    """Replaces a source's folder by these files."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def differences(made: Path, committed: Path) -> list[str]:
    """Files that are missing, surplus or unlike in the committed folder."""
    names = {path.relative_to(root) for root in (made, committed) for path in root.rglob("*") if path.is_file()}
    return [
        str(committed.name / name)
        for name in sorted(names)
        if not ((made / name).is_file() and (committed / name).is_file())
        or not filecmp.cmp(made / name, committed / name, shallow=False)
    ]


def main() -> int:
    """Builds or checks the sources; the exit status is 1 when a check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where downloads are kept")
    parser.add_argument("--check", action="store_true", help="compare with the committed files, change nothing")
    parser.add_argument("--only", nargs="*", choices=SOURCES, default=list(SOURCES), help="some sources")
    arguments = parser.parse_args()
    packages = Packages(arguments.work)
    unlike: list[str] = []
    for name in arguments.only:
        files = SOURCES[name](packages)
        if arguments.check:
            with tempfile.TemporaryDirectory() as folder:
                write(files, Path(folder) / name)
                unlike += differences(Path(folder) / name, HERE / name)
        else:
            write(files, HERE / name)
        print(f"{name}: {len(files)} files, {sum(map(len, files.values())):,} bytes")
    for path in unlike:
        print(f"differs: {path}", file=sys.stderr)
    return 1 if unlike else 0


if __name__ == "__main__":
    raise SystemExit(main())
