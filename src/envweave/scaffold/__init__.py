"""`envweave init`: the first files of an environment of your own."""
