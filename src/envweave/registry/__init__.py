"""Names: register them, resolve them, make environments of them."""
