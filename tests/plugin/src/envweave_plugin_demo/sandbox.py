"""A sandbox for trusted code, with less time than usual."""

from envweave.sandbox import Limits, Sandbox


def quick_sandbox(*, limits=Limits(wall=10.0), **options):  # noqa: B008  (a constant)
    return Sandbox("local", limits=limits, **options)
