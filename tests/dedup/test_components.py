import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tasks.dedup.components import components, largest


@pytest.mark.parametrize("num_edges", [0, 50, 150, 1000])
def test_components_are_those_of_scipy(num_edges):
    draw = np.random.default_rng(num_edges)
    edges = draw.integers(0, 300, (num_edges, 2))
    ours = components(300, edges)
    graph = coo_array((np.ones(num_edges), (edges[:, 0], edges[:, 1])), shape=(300, 300))
    count, theirs = connected_components(graph, directed=False)
    assert len(np.unique(ours)) == count
    assert len(np.unique(np.stack([ours, theirs]), axis=1).T) == count


def test_a_component_is_named_by_its_smallest_member():
    assert components(5, np.array([[4, 2], [2, 3]])).tolist() == [0, 1, 2, 2, 2]


def test_the_largest_component_is_counted():
    assert largest(np.array([0, 1, 1, 1, 4])) == 3
    assert largest(np.array([], np.int64)) == 0
