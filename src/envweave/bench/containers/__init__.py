"""Servers in containers: how soon they answer, how fast they step, how many at once, and that none is left.

Read `starts`, then `steps`.
"""
