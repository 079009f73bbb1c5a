"""The two models that the demo trains and the benchmark times: a small ConvNet and a small GPT. Plain PyTorch."""

import torch
import torch.nn.functional as F
from torch import nn


class AgreedDropout(nn.Module):
    """Dropout whose masks are a hash of a counter, in integer arithmetic: two devices drop the same elements.

    With each device's own random numbers two loss curves would differ by the luck of the masks; with agreed masks
    they are the same training, and only rounding tells them apart. The counter is a buffer on the device, so nothing
    is drawn on the host and the masks differ from step to step under ``jit`` too.
    """

    def __init__(self, p: float):
        super().__init__()
        self.p = p
        self.register_buffer("drawn", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0:
            return x
        bits = torch.arange(x.numel(), device=x.device).view(x.shape) + self.drawn
        self.drawn += x.numel()
        for _ in range(3):  # rounds of a mixer of 32 bits; the products fit in 64
            bits = (bits ^ (bits >> 16)) * 0x45D9F3B & 0xFFFFFFFF
        return x * (bits >= int(self.p * 2**32)) / (1 - self.p)


class ConvNet(nn.Sequential):
    """Two convolutions with BatchNorm and dropout, for 8x8 images of digits: (n, 1, 8, 8) to (n, 10)."""

    def __init__(self, width: int = 16, dropout: float = 0.25):
        super().__init__(
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            AgreedDropout(dropout),
            nn.Flatten(),
            nn.Linear(2 * width * 16, 10),
        )


class Block(nn.Module):
    """A pre-norm transformer block: causal attention, then a feed-forward layer of four times the width."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A decoder over ``vocabulary`` tokens: (n, length) int64 to (n, length, vocabulary) logits."""

    def __init__(self, vocabulary: int, length: int = 64, layers: int = 4, width: int = 128, heads: int = 4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.size(1)]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
