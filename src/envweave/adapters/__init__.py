"""The interfaces of others: one SDK per file."""
