"""The judge lets a more exact result pass and nothing else; ties are compared by their elements."""

import torch

from tests.opinfo import judge, ties


def test_nearer_to_exact_passes_and_farther_does_not():
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    cpu = torch.tensor([1.25, 2.0], dtype=torch.float16)
    assert judge.as_exact(torch.tensor([1.0, 2.0], dtype=torch.float16), cpu, exact)
    assert not judge.as_exact(torch.tensor([1.0, 2.75], dtype=torch.float16), cpu, exact)
    assert not judge.as_exact(torch.tensor([1.0, torch.nan], dtype=torch.float16), cpu, exact)


def test_an_overflow_of_the_cpu_excuses_nothing():
    exact = torch.tensor([70.0, 1.0], dtype=torch.float64)
    cpu = torch.tensor([torch.inf, 1.0], dtype=torch.float16)
    assert judge.as_exact(torch.tensor([70.0, 1.0], dtype=torch.float16), cpu, exact)
    assert not judge.as_exact(torch.tensor([71.0, 1.0], dtype=torch.float16), cpu, exact)


def test_shape_dtype_and_integers_are_not_judged():
    exact = torch.tensor([1.0], dtype=torch.float64)
    assert not judge.as_exact(torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float16), exact)
    assert not judge.as_exact(torch.tensor([[1.0]]), torch.tensor([1.0]), exact)
    assert not judge.as_exact(torch.tensor([2]), torch.tensor([1]), torch.tensor([2]))


def test_indices_of_equal_elements_are_exchangeable():
    x = torch.tensor([3.0, 1.0, 3.0])
    first = ties.elements("sort", x, (), {}, [x.sort().values, torch.tensor([1, 0, 2])])
    second = ties.elements("sort", x, (), {}, [x.sort().values, torch.tensor([1, 2, 0])])
    wrong = ties.elements("sort", x, (), {}, [x.sort().values, torch.tensor([0, 2, 1])])
    assert all(map(torch.equal, first, second))
    assert not all(map(torch.equal, first, wrong))
    assert not ties.applies("sort", {"stable": True})


def test_gradients_of_equal_elements_are_summed():
    x = torch.tensor([3.0, 1.0, 3.0])
    sums = [ties.gradients(x, [torch.tensor(g)])[0] for g in ([1.0, 5.0, 2.0], [2.0, 5.0, 1.0], [1.0, 2.0, 5.0])]
    assert torch.equal(sums[0], sums[1])
    assert not torch.equal(sums[0], sums[2])
