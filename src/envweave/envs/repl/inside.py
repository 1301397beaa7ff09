"""The functions that code in the REPL can call. This text is sent into the sandbox and run there, never here."""


def _repl_functions() -> tuple[object, ...]:
    import types

    names = globals()
    submit = names.pop("_submit_final_answer")

    def FINAL(value: object = "") -> str:  # noqa: N802  (its users write it so)
        """Give the final answer. The first one counts, if the code runs to its end without an exception."""
        text = str(value)
        submit(text)
        return f"FINAL({text})"

    def FINAL_VAR(name: object) -> str:  # noqa: N802
        """Give the value of a variable, named by a string, as the final answer."""
        if not isinstance(name, str):
            return FINAL(name)
        plain = name.strip().strip("\"'")
        if plain not in names:
            raise NameError(f"no variable named {plain[:100]!r}; SHOW_VARS() lists them, FINAL(value) takes a value")
        return FINAL(names[plain])

    def SHOW_VARS() -> list[str]:  # noqa: N802
        """The names of all variables."""
        return sorted(
            name
            for name, value in list(names.items())
            if not name.startswith("_")
            and not isinstance(value, types.ModuleType)
            and not (isinstance(value, types.FunctionType) and value.__module__ == "tools")
        )

    def read_answer(printed: list[str], last: bool) -> dict[str, object]:
        """Called by the environment after each run: what may be the answer, converted to text here.

        That is the values of the variables that the code may have printed as `FINAL_VAR(name)`, and the content of
        `answer`, if it is ready or this was the last run.
        """
        variables = {name: str(names[name]) for name in printed if names.get(name) is not None}
        answer = names.get("answer", {})
        answer = answer if issubclass(type(answer), dict) else {}
        ready = bool(answer.get("ready"))
        wanted = ready or (last and answer.get("content"))
        return {"variables": variables, "ready": ready, "content": str(answer.get("content", "")) if wanted else None}

    for function in (FINAL, FINAL_VAR, SHOW_VARS):
        function.__qualname__ = function.__name__
    return FINAL, FINAL_VAR, SHOW_VARS, read_answer


FINAL, FINAL_VAR, SHOW_VARS, _read_answer = _repl_functions()
del _repl_functions
