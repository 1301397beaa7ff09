"""`python -m envweave` is the command `envweave`."""

from envweave.cli import main

main()
