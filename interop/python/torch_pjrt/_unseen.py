"""Formulas without a look at values, for functions of torch's whose own have one; see ``_blind.py``.

What torch checks before it looks has been checked when one of these is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._asserted import check

_Tensor = torch.Tensor


def _on_device(t: Any) -> bool:
    return isinstance(t, _Tensor) and t.device.type == "pjrt"


def cov(
    input: _Tensor, *, correction: int = 1, fweights: _Tensor | None = None, aweights: _Tensor | None = None
) -> _Tensor:
    """Covariance of the rows, each column counting as often as its weights say."""
    if not _on_device(input):
        return NotImplemented
    x = input.unsqueeze(0) if input.dim() < 2 else input
    weights: Any = None
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is not None:
            if w.numel():
                check(w < 0, f"cov: {name} cannot be negative")
            weights = w if weights is None else weights * w
    if weights is None:
        total: Any = torch.tensor(x.size(1), device=x.device)
    else:
        total = weights.sum()
        check(total == 0, "cov: weights sum to zero, can't be normalized")
    weighted = x if weights is None else x * weights
    centered = x - (weighted.sum(1) / total).unsqueeze(1)
    if aweights is not None and correction != 0:
        degrees = total - correction * (weights * aweights).sum() / total
    else:
        degrees = total - correction
    again = centered if weights is None else centered * weights
    return (centered @ again.mH / degrees.clamp(min=0)).squeeze()


def corrcoef(input: _Tensor) -> _Tensor:
    """Covariances over the standard deviations of both, within what a correlation can be."""
    if not _on_device(input):
        return NotImplemented
    c = cov(input)
    if c.dim() == 0:
        return c / c
    deviation = (torch.real(c.diag()) if c.is_complex() else c.diag()).sqrt()
    c = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    return torch.complex(c.real.clip(-1, 1), c.imag.clip(-1, 1)) if c.is_complex() else c.clip(-1, 1)


def istft(
    input: _Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: _Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> _Tensor:
    """Frames back from their spectra, added up where they overlap, over the sum of the squared windows."""
    if not _on_device(input):
        return NotImplemented
    step, width = hop_length or n_fft // 4, win_length or n_fft
    real = torch.ones(width, device=input.device, dtype=input.real.dtype) if window is None else window
    left = (n_fft - width) // 2
    if width != n_fft:
        real = torch.nn.functional.pad(real, (left, n_fft - width - left))
    x = (input.unsqueeze(0) if input.dim() == 2 else input).mT
    count = x.size(1)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = torch.fft.ifft(x, dim=-1, norm=norm)
    else:  # the other side of a spectrum is taken to be its mirror image
        frames = torch.fft.irfft(x[..., : n_fft // 2 + 1], n_fft, dim=-1, norm=norm)
    total = n_fft + step * (count - 1)
    places = (torch.arange(count) * step).unsqueeze(1) + torch.arange(n_fft)
    places = places.reshape(-1).to(input.device)

    def added(values: _Tensor) -> _Tensor:
        flat = values.reshape(values.size(0), -1)
        return flat.new_zeros((values.size(0), total)).index_add(1, places, flat)

    signal = added(frames * real)
    envelope = added(real.square().expand(1, count, n_fft))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start
    signal, envelope = signal[:, start:end], envelope[:, start:end]
    check((envelope.abs() < 1e-11).any(), "istft: window overlap add min: 1")
    signal = signal / envelope
    if end > total:
        signal = torch.nn.functional.pad(signal, (0, end - total))
    return signal.squeeze(0) if input.dim() == 2 else signal


def index_fill(self: _Tensor, dim: int, index: _Tensor, value: Any) -> _Tensor:
    """With a value whose gradient is wanted: a choice, whose gradient looks for no repeated index."""
    if not (_on_device(self) and isinstance(value, _Tensor)):
        return NotImplemented
    shape = [1] * self.dim()
    size = 1
    if shape:
        size = shape[dim] = self.size(dim)
    chosen = torch.zeros(size, dtype=torch.bool, device=self.device).index_fill(0, index, True)
    return torch.where(chosen.view(shape), value.to(self), self)


def index_fill_(self: _Tensor, dim: int, index: _Tensor, value: Any) -> _Tensor:
    made = index_fill(self, dim, index, value)
    return NotImplemented if made is NotImplemented else self.copy_(made)


def ctc_loss(
    log_probs: _Tensor,
    targets: _Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> _Tensor:
    """With lengths that are tensors."""
    lengths = (input_lengths, target_lengths)
    if not (_on_device(log_probs) and all(isinstance(n, _Tensor) for n in lengths)):
        return NotImplemented
    device = log_probs.device
    times, counts = (n.to(device, torch.int64).reshape(-1) for n in lengths)
    single = log_probs.dim() == 2
    if single:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    targets = targets.to(device)
    at_most = log_probs.size(0)
    check(
        times > at_most,
        f"ctc_loss: Expected input_lengths to have value at most {at_most}, but got value {{}} (while checking "
        "arguments for ctc_loss)",
        value=times,
    )
    for name, n in (("input_lengths", times), ("target_lengths", counts)):
        check(n < 0, f"ctc_loss: Expected {name} to have value at least 0, but got value {{}}", value=n)
    if targets.dim() == 1:
        size = targets.numel()
        check(
            counts.sum() != size,
            f"ctc_loss: Expected tensor to have size {{}} at dimension 0, but got size {size} for argument #2 "
            "'targets' (while checking arguments for ctc_loss)",
            value=counts.sum(),
        )
        starts = counts.cumsum(0) - counts
        places = torch.arange(size, device=device) + starts.unsqueeze(1)
        targets = targets[places.clamp(0, max(size - 1, 0))] if size else targets.new_zeros((counts.numel(), 0))
    else:
        size = targets.size(1)
        check(
            counts > size,
            f"ctc_loss: Expected tensor to have size at least {{}} at dimension 1, but got size {size} for argument #2 "
            "'targets' (while checking arguments for ctc_loss)",
            value=counts,
        )
    counts = counts.clamp(0, size)
    loss = torch.ops.aten._ctc_loss.Tensor(log_probs, targets, times.clamp(0, at_most), counts, blank, zero_infinity)[0]
    if zero_infinity:
        loss = torch.where(loss == float("inf"), 0, loss)
    if reduction == 1:
        return (loss / counts.clamp(min=1)).mean()
    return loss.sum() if reduction == 2 else loss.squeeze(0) if single else loss


_T: Any = torch.Tensor
INSTEAD: dict[Any, Callable[..., Any]] = {
    torch.cov: cov,
    _T.cov: cov,
    torch.corrcoef: corrcoef,
    _T.corrcoef: corrcoef,
    torch.istft: istft,
    _T.istft: istft,
    torch.index_fill: index_fill,
    _T.index_fill: index_fill,
    _T.index_fill_: index_fill_,
    torch.ctc_loss: ctc_loss,
}
