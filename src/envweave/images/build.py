"""Build an image with the Docker SDK, and try it. With `sandbox.docker` and `providers.docker`, its door."""
