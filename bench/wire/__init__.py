"""Servers and clients against OpenEnv's, as real processes on this machine.

Both servers run at the same time and take turns in slices of 0.1 s. A figure is the median of the rounds' ratios.
"""
