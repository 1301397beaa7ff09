"""`envweave init`: the first files of an environment of your own.

`name.py` says what a name may be and what follows from it · `write.py` writes the files of `project/`, in which
`MY_ID`, `my_env`, `my-env` and `My` stand for those names.
"""
