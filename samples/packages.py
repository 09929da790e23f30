"""Pinned packages of three registries, and the files of them that are used."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

Files = dict[str, bytes]


@dataclass(frozen=True)
class Package:
    """A package at one version, and the files of it that are used (shell patterns on its paths)."""

    client: Literal["apt", "npm", "pip"]
    name: str
    version: str
    keep: tuple[str, ...]


def download(package: Package, folder: Path) -> Path:
    """The package's archive under ``folder``; its own client fetches it if it is not there yet."""
    if not (folder.is_dir() and any(folder.iterdir())):
        folder.mkdir(parents=True, exist_ok=True)
        commands = {
            "apt": ["apt-get", "download", f"{package.name}={package.version}"],
            "npm": ["npm", "pack", "--silent", f"{package.name}@{package.version}"],
            "pip": [
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--only-binary",
                ":all:",
                f"{package.name}=={package.version}",
            ],
        }
        subprocess.run(commands[package.client], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.iterdir()
    return archive


def read_kept(package: Package, archive: Path) -> Files:
    """The files of an archive that the package's patterns name; nothing is unpacked to disk."""

    def wanted(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in package.keep)

    if package.client == "pip":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in sorted(wheel.namelist()) if wanted(name)}
    data = archive.read_bytes()
    if package.client == "apt":
        command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
        data = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    files = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            name = member.name.removeprefix("./").removeprefix("package/")
            content = tar.extractfile(member) if member.isreg() and wanted(name) else None
            if content:
                files[name] = content.read()
    return dict(sorted(files.items()))


class Packages:
    """The pinned packages, each downloaded and read on first use."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._read: dict[Package, Files] = {}

    def files(self, package: Package) -> Files:
        """The kept files of one package, by path, in path order."""
        if package not in self._read:
            folder = f"{package.name}-{package.version}".replace("/", "-")
            self._read[package] = read_kept(package, download(package, self._work / "packages" / folder))
        return self._read[package]
