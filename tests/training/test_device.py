from __future__ import annotations

import pytest

from tasks.training import device


@pytest.mark.parametrize(
    ("line", "precision"),
    [
        ("flags\t\t: fpu sse2 avx2 avx512f avx512_bf16", "bf16"),
        ("flags\t\t: fpu amx_bf16 amx_tile", "bf16"),
        ("Features\t: fp asimd bf16", "bf16"),
        ("flags\t\t: fpu sse2 avx2 avx512f", "fp32"),
        ("model name\t: something with bf16", "fp32"),
    ],
)
def test_bf16_is_taken_where_the_cpu_multiplies_it(tmp_path, monkeypatch, line, precision):
    monkeypatch.setattr(device, "has_accelerator", lambda: False)
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{line}\n")
    assert device.faster_precision(tmp_path / "cpuinfo") == precision


def test_an_unknown_cpu_computes_in_fp32(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "has_accelerator", lambda: False)
    assert device.faster_precision(tmp_path / "none") == "fp32"


def test_an_accelerator_computes_in_bf16(monkeypatch):
    monkeypatch.setattr(device, "has_accelerator", lambda: True)
    assert device.faster_precision() == "bf16"
