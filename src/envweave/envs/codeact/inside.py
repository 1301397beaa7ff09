"""The file tools as the agent's code has them: this text is sent into the sandbox and run there, never here."""


def _file_tools() -> tuple[object, ...]:
    import os

    root = os.path.realpath(os.environ["HOME"])

    def place(path: str) -> str:
        found = os.path.realpath(os.path.join(root, os.fspath(path)))
        if not found.startswith(root + os.sep):
            raise PermissionError(f"{path!r} is not a file of the episode's folder")
        return found

    def file_write(path: str, content: str) -> str:
        """Write text to a file of the episode's folder; what was in it before is gone."""
        target = place(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(content)
        return f"wrote {len(content)} characters to {path}"

    def file_read(path: str) -> str:
        """The text of a file of the episode's folder."""
        with open(place(path), encoding="utf-8") as file:
            return file.read()

    def file_list() -> list[str]:
        """The paths of all files of the episode's folder."""
        found = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
        return sorted(os.path.relpath(path, root) for path in found)

    def file_delete(path: str) -> str:
        """Remove a file of the episode's folder."""
        os.remove(place(path))
        return f"deleted {path}"

    return file_write, file_read, file_list, file_delete


file_write, file_read, file_list, file_delete = _file_tools()
del _file_tools
