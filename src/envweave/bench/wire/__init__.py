"""Servers and clients against OpenEnv's, as real processes on this machine.

Both servers are up at the same time and take turns in slices of less than half a second, so that whatever else the
machine does meets both. A figure is the median of the rounds' ratios.
"""
