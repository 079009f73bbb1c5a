"""Tests of jit."""
