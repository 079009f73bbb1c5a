"""Faults seen in comparable systems, each tested as a kind: the inputs vary around the one that broke.

Every function runs on torch CPU and on the device, in each mode, and must have the same outcome.
"""
