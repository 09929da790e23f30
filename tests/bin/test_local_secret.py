"""The local secrets: made once, the same for everybody, read by nobody else."""

import base64
import json
import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bin/local-secret"


def secret(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEADRACE_SECRETS": str(folder)}
    return subprocess.run([SCRIPT, name], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "num_bytes"), [("fernet-key", 32), ("jwt-secret", 64), ("api-secret-key", 64), ("mlflow-password", 18)]
)
def test_a_secret_is_random_bytes_in_url_safe_base64(tmp_path, name, num_bytes):
    text = secret(name, tmp_path / "secrets").stdout
    assert len(base64.urlsafe_b64decode(text)) == num_bytes
    assert not set("+/\n") & set(text)


def test_the_fernet_key_is_one(tmp_path):
    from cryptography.fernet import Fernet

    key = Fernet(secret("fernet-key", tmp_path).stdout)
    assert key.decrypt(key.encrypt(b"text")) == b"text"


def test_twenty_at_once_get_the_same_secret(tmp_path):
    with ThreadPoolExecutor(20) as pool:
        found = {one.stdout for one in pool.map(lambda _: secret("jwt-secret", tmp_path), range(20))}
    assert len(found) == 1
    assert len(found.pop()) >= 64


def test_a_secret_stays_and_two_are_different(tmp_path):
    assert secret("jwt-secret", tmp_path).stdout == secret("jwt-secret", tmp_path).stdout
    assert secret("jwt-secret", tmp_path).stdout != secret("api-secret-key", tmp_path).stdout


def test_only_the_owner_reads_them_and_airflows_passwords(tmp_path):
    folder = tmp_path / "secrets"
    secret("jwt-secret", folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"jwt-secret": 0o600, "airflow-passwords.json": 0o600}


def test_airflow_finds_its_admins_password_and_makes_none(tmp_path):
    """It would print the one it makes into its log."""
    secret("jwt-secret", tmp_path)
    text = (tmp_path / "airflow-passwords.json").read_text()
    assert text == secret("airflow-passwords.json", tmp_path).stdout
    passwords = json.loads(text)
    assert set(passwords) == {"admin"}
    assert len(passwords["admin"]) == 24


def test_an_empty_file_is_no_secret(tmp_path):
    (tmp_path / "airflow-passwords.json").touch()
    secret("jwt-secret", tmp_path)
    assert json.loads((tmp_path / "airflow-passwords.json").read_text())


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path):
    refused = secret("password", tmp_path)
    assert refused.returncode == 2
    assert "fernet-key" in refused.stderr
    assert not list(tmp_path.iterdir())
