"""Handles and vectors in one process, against plain calls and Gymnasium, and the time of the import."""
