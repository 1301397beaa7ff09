"""Many environments at once: a batch is rows with identities, and a failure is a row."""
