"""Images of environments: what goes into them, and how they are built and tried."""
