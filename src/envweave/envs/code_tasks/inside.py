"""Calls the function of an agent for a hidden test. This text is sent into the sandbox and run there, never here."""


def call(function: object, arguments: str) -> list[object]:
    """What the function returns, in a list, so that it differs from what code leaves that ends in another way."""
    import json

    def check(value: object) -> None:
        kind = type(value)
        if kind is list:
            for inner in value:  # type: ignore[attr-defined]
                check(inner)
        elif kind is dict:
            for key, inner in value.items():  # type: ignore[attr-defined]
                if type(key) is not str:
                    raise TypeError("a key is not text")
                check(inner)
        elif kind not in (str, int, float, bool, type(None)):  # a tuple is not a list
            raise TypeError(f"a {kind.__name__} is not JSON data")

    value = function(*json.loads(arguments))  # type: ignore[operator]
    check(value)
    return ["returned", value]
