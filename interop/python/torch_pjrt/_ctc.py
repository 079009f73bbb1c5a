"""CTC loss with lengths given as numbers: they become tensors, so that one program serves every batch."""

from __future__ import annotations

import torch

from ._lazy_kernel import Kernel

_loss = Kernel("_ctc_loss.Tensor", "_ctc_loss.Tensor", "functional")
_backward = Kernel("_ctc_loss_backward.Tensor", "_ctc_loss_backward.Tensor", "functional")


def _check(log_probs: torch.Tensor, targets: torch.Tensor, times: list[int], counts: list[int]) -> None:
    batch = log_probs.size(1)
    for name, lengths in (("input_lengths", times), ("target_lengths", counts)):
        if len(lengths) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        if any(n < 0 for n in lengths):
            raise RuntimeError(f"ctc_loss: Expected {name} to have value at least 0, but got value {min(lengths)}")
    if any(n > log_probs.size(0) for n in times):
        raise RuntimeError(
            f"Expected input_lengths to have value at most {log_probs.size(0)}, but got value {max(times)} "
            "(while checking arguments for ctc_loss)"
        )
    if targets.dim() == 1:
        if targets.numel() != sum(counts):
            raise RuntimeError(
                f"Expected tensor to have size {sum(counts)} at dimension 0, but got size {targets.numel()} for "
                "argument #2 'targets' (while checking arguments for ctc_loss)"
            )
    elif targets.dim() != 2 or targets.size(0) != batch or targets.size(1) < max(counts, default=0):
        raise RuntimeError(
            f"Expected tensor to have size at least {max(counts, default=0)} at dimension 1, but got size "
            f"{targets.size(-1)} for argument #2 'targets' (while checking arguments for ctc_loss)"
        )


def _arguments(
    log_probs: torch.Tensor, targets: torch.Tensor, times: list[int], counts: list[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log probabilities, targets as rows, and both lengths, on the device."""
    _check(log_probs, targets, times, counts)
    device = log_probs.device
    targets = targets.to(device)
    if targets.dim() == 1 and counts:
        # Rows as long as the longest, rounded up so that lengths that vary share programs.
        width = -(-max(counts) // 8) * 8
        places = torch.arange(width) + (torch.tensor(counts).cumsum(0) - torch.tensor(counts)).unsqueeze(1)
        places = places.clamp_(max=max(targets.numel() - 1, 0))
        targets = targets[places.to(device)] if targets.numel() else targets.new_zeros((len(counts), 0))
    lengths = torch.tensor([times, counts], dtype=torch.int64).to(device)
    return log_probs, targets, lengths[0], lengths[1]


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: list[int],
    target_lengths: list[int],
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _loss(*_arguments(log_probs, targets, input_lengths, target_lengths), blank, zero_infinity)


def ctc_loss_backward(
    grad: torch.Tensor,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: list[int],
    target_lengths: list[int],
    neg_log_likelihood: torch.Tensor,
    log_alpha: torch.Tensor,
    blank: int,
    zero_infinity: bool = False,
) -> torch.Tensor:
    arguments = _arguments(log_probs, targets, input_lengths, target_lengths)
    return _backward(grad, *arguments, neg_log_likelihood, log_alpha, blank, zero_infinity)


KERNELS = {"_ctc_loss": ctc_loss, "_ctc_loss_backward": ctc_loss_backward}
