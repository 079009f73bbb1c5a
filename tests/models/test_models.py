"""Whole models with random weights: outputs, gradients and buffers on the device equal torch CPU's, with no fallback.

float64 makes rounding small enough for the one tolerance table to hold through a hundred layers, so what is compared
is the arithmetic; the same models run in float32 forward, where users have them. Under jit the forward and backward
pass is one program.
"""

import copy

import pytest
import torch
import torch.nn.functional as F

from tests.support import DEVICE, assert_same, in_mode

pytestmark = [pytest.mark.usefixtures("no_fallback"), pytest.mark.filterwarnings("ignore")]


def images(n=2, size=64):
    return {"x": torch.randn(n, 3, size, size, dtype=torch.float64)}


def tokens(**more):
    ids = torch.randint(0, 90, (2, 12), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, **more}


def resnet18():
    import torchvision

    return torchvision.models.resnet18(num_classes=10), images()


def mobilenet_v3_small():
    import torchvision

    return torchvision.models.mobilenet_v3_small(num_classes=10, dropout=0.0), images()


def vision_transformer():
    import torchvision

    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10
    )
    return model, images(size=32)


def bert():
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=97,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    mask = torch.tensor([[1] * 12, [1] * 9 + [0] * 3])
    return BertForMaskedLM(config), tokens(attention_mask=mask, labels=tokens()["input_ids"])


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=97, n_positions=32, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    return GPT2LMHeadModel(config), tokens(labels=tokens()["input_ids"], use_cache=False)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    return LlamaForCausalLM(config), tokens(labels=tokens()["input_ids"], use_cache=False)


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=97,
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config), tokens(labels=tokens()["input_ids"], use_cache=False)


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        num_labels=5,
    )
    return ViTForImageClassification(config), {"pixel_values": images(size=32)["x"], "labels": torch.tensor([1, 3])}


MODELS = [resnet18, mobilenet_v3_small, vision_transformer, bert, gpt2, llama, t5, vit]


EACH_MODE = pytest.mark.parametrize("mode", ["strict", "jit"], indirect=True)


def run(model, inputs, device, dtype, backward=True):
    """Output, loss, gradients by name and buffers of ``model`` on ``device``."""
    model = copy.deepcopy(model).to(device=device, dtype=dtype).train(backward)
    moved = {k: _to(v, device, dtype) for k, v in inputs.items()}

    def work():
        with torch.set_grad_enabled(backward):
            out = model(moved["x"]) if "x" in moved else model(**moved)
            logits, loss = (out, None) if isinstance(out, torch.Tensor) else (out.logits, out.loss)
            if loss is None:
                loss = F.cross_entropy(logits, torch.arange(len(logits), device=device))
        if backward:
            loss.backward()
        return logits, loss

    logits, loss = in_mode(work, device)()
    if not backward:
        return logits.cpu()
    grads = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    return logits.detach().cpu(), loss.item(), grads, {name: b.cpu() for name, b in model.named_buffers()}


def _to(value, device, dtype):
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device=device, dtype=dtype if value.is_floating_point() else value.dtype)


@pytest.mark.parametrize("build", MODELS, ids=lambda f: f.__name__)
@EACH_MODE
def test_forward_and_backward_equal_cpu(build, mode):
    torch.manual_seed(0)
    model, inputs = build()
    dtype = torch.float32 if build is t5 else torch.float64  # T5's norm computes in float32 whatever the model is
    expected = run(model, inputs, "cpu", dtype)
    actual = run(model, inputs, DEVICE, dtype)
    assert_same(actual, expected, build.__name__)


@pytest.mark.parametrize("build", MODELS, ids=lambda f: f.__name__)
@EACH_MODE
def test_float32_inference_equals_cpu(build, mode):
    torch.manual_seed(0)
    model, inputs = build()
    expected = run(model, inputs, "cpu", torch.float32, backward=False)
    assert_same(run(model, inputs, DEVICE, torch.float32, backward=False), expected, build.__name__)


def test_generation_equals_cpu():
    """Greedy decoding with a growing key-value cache: many shapes, int64 indexing, in-place writes."""
    torch.manual_seed(0)
    model, inputs = llama()
    model = model.double().eval()
    ids = inputs["input_ids"]
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(ids, **options)
    actual = copy.deepcopy(model).to(DEVICE).generate(ids.to(DEVICE), **options)
    assert actual.cpu().tolist() == expected.tolist()
