"""``flex_attention`` on the device: its dense form, which torch takes where it generates no kernel."""

import pytest
import torch
import torch_pjrt as tp
from torch.nn.attention import flex_attention as module
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.support import assert_same, fallbacks, to_cpu

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
WAYS = pytest.mark.parametrize("wrap", [lambda f: f, tp.jit], ids=["eager", "jit"])
LENGTH = 128


def causal(b, h, m, n):
    return m >= n


def distance(score, b, h, m, n):
    return score + (n - m) * 0.1


def by_head(score, b, h, m, n):
    return torch.tanh(score / 2) * 2 + h


CASES = {
    "plain": (None, None, 4),
    "scores": (distance, None, 4),
    "mask": (None, causal, 4),
    "scores and mask": (by_head, causal, 4),
    "groups of heads": (distance, causal, 2),
    "one head for all": (None, causal, 1),
}


def inputs(heads):
    shapes = [(2, 4, LENGTH, 8), (2, heads, LENGTH, 8), (2, heads, LENGTH, 16)]
    return [
        torch.randn(s, dtype=torch.float64, generator=torch.Generator().manual_seed(i)) for i, s in enumerate(shapes)
    ]


def formula(q, k, v, score_mod, mask_mod):
    """Attention by its definition, on the CPU."""
    groups = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.mT * q.size(-1) ** -0.5
    places = torch.meshgrid(*(torch.arange(n) for n in scores.shape), indexing="ij")
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if mask_mod is not None:
        scores = scores.masked_fill(~mask_mod(*places), -float("inf"))
    return scores.softmax(-1) @ v


@WAYS
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, wrap):
    score_mod, mask_mod, heads = CASES[name]
    before = fallbacks()
    given = inputs(heads)
    leaves = [t.clone().requires_grad_() for t in given]
    expected = formula(*leaves, score_mod, mask_mod)
    gradients = torch.autograd.grad(expected.square().sum(), leaves)
    mask = create_block_mask(mask_mod, 2, 4, LENGTH, LENGTH, device="pjrt") if mask_mod else None

    def work(q, k, v):
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        out = flex_attention(*leaves, score_mod=score_mod, block_mask=mask, enable_gqa=heads < 4)
        return out.detach(), *torch.autograd.grad(out.square().sum(), leaves)

    got = wrap(work)(*(t.to("pjrt") for t in given))
    assert_same(to_cpu(got), [expected.detach(), *gradients])
    assert fallbacks() == before


@WAYS
def test_a_bias_that_is_learned(wrap):
    bias = torch.linspace(-1, 1, 4, dtype=torch.float64)

    def work(q, k, v, bias, formula=None):
        bias = bias.detach().requires_grad_()

        def score_mod(score, b, h, m, n):
            return score * bias[h]

        out = formula(q, k, v, score_mod, None) if formula else flex_attention(q, k, v, score_mod=score_mod)
        return torch.autograd.grad(out.square().sum(), bias)[0]

    given = inputs(4)
    expected = work(*given, bias, formula)
    assert_same(to_cpu(wrap(work)(*(t.to("pjrt") for t in (*given, bias)))), expected)


@WAYS
def test_what_else_it_returns(wrap):
    if not hasattr(module, "AuxRequest"):
        pytest.skip("this torch has no AuxRequest")
    q, k, v = inputs(4)

    def work(q, k, v):
        out, aux = flex_attention(q, k, v, return_aux=module.AuxRequest(lse=True, max_scores=True))
        return out, aux.lse, aux.max_scores

    scores = q @ k.mT * 8**-0.5
    expected = [scores.softmax(-1) @ v, scores.logsumexp(-1), scores.amax(-1)]
    assert_same(to_cpu(wrap(work)(*(t.to("pjrt") for t in (q, k, v)))), expected)


@WAYS
def test_autocast(wrap):
    q, k, v = (t.float().to("pjrt") for t in inputs(4))
    with torch.autocast("pjrt", dtype=torch.bfloat16):
        assert wrap(flex_attention)(q, k, v).dtype == torch.bfloat16
        branches = torch.cond(q.sum() > 0, lambda q: q @ q.mT, lambda q: q @ q.mT * 2, (q,))
    assert branches.dtype == torch.bfloat16


def test_other_devices_are_refused_as_before():
    q, k, v = (t.requires_grad_() for t in inputs(4))
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        flex_attention(q, k, v)
