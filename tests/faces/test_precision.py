"""``torch.set_float32_matmul_precision`` decides how matrix products are computed, and is part of the program's key."""

import torch
import torch_pjrt as tp


def test_matmul_precision_is_part_of_the_key() -> None:
    a = torch.randn(3, 5, device="pjrt")
    b = torch.randn(5, 7, device="pjrt")
    a @ b
    before = torch.get_float32_matmul_precision()
    other = "medium" if before != "medium" else "highest"
    try:
        torch.set_float32_matmul_precision(other)
        misses = tp.cache_info()["misses"]
        a @ b
        assert tp.cache_info()["misses"] == misses + 1
    finally:
        torch.set_float32_matmul_precision(before)
    misses = tp.cache_info()["misses"]
    a @ b
    assert tp.cache_info()["misses"] == misses
