"""`envweave init`: a new project with an example environment.

`names.py` validates the name and derives module, project and class names from it; `project.py` writes the files of
`template/`, in which `MY_ID`, `my_env`, `my-env` and `My` are placeholders for these names.
"""
