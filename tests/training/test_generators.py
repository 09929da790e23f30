from __future__ import annotations

import random

import numpy as np
import torch

from tasks.training.generators import late_seed, random_state, restore_random_state, seed_generators


def drawn() -> tuple[float, float, list[float]]:
    return random.random(), np.random.random(), torch.rand(3).tolist()


def test_all_generators_continue_where_they_were(tmp_path):
    torch.save(random_state(), tmp_path / "random.pt")
    before = drawn()
    restore_random_state(torch.load(tmp_path / "random.pt", weights_only=True))
    assert drawn() == before


def test_a_seed_decides_all_generators():
    seed_generators(7)
    before = drawn()
    seed_generators(7)
    assert drawn() == before


def test_processes_that_join_later_draw_each_their_own():
    seeds = {late_seed(seed, rank, step) for seed in (1, 2) for rank in range(4) for step in (100, 200)}
    assert len(seeds) == 16
    assert late_seed(1, 2, 100) == late_seed(1, 2, 100)
