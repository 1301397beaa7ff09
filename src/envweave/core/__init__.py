"""The contract: environments, handles, the rules between them, IDs and specs."""
