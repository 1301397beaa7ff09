"""What tests of several rooms share; `tests/conftest.py` makes it importable."""
