"""The file tools as the agent's code has them: this text is sent into the sandbox and run there, never here."""


def _file_tools() -> tuple[object, ...]:
    import os

    root, temporary = os.path.realpath(os.environ["HOME"]), os.path.realpath(os.environ["TMPDIR"])

    def place(path: str) -> str:
        name = os.fspath(path)
        folder, name = (temporary, name[5:]) if name.startswith("/tmp/") else (root, name)  # noqa: S108
        found = os.path.realpath(os.path.join(folder, name))
        if not found.startswith(folder + os.sep):
            raise PermissionError(f"{path!r} is not a file of the episode's folder or of /tmp")
        return found

    def file_write(path: str, content: str) -> str:
        """Write text to a file of the episode's folder, or of its own /tmp, and replace what it contained."""
        target = place(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(content)
        return f"wrote {len(content)} characters to {path}"

    def file_read(path: str) -> str:
        """The text of a file of the episode's folder, or of its own /tmp."""
        with open(place(path), encoding="utf-8") as file:
            return file.read()

    def file_list() -> list[str]:
        """The paths of all files of the episode's folder."""
        found = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
        return sorted(os.path.relpath(path, root) for path in found)

    def file_delete(path: str) -> str:
        """Remove a file of the episode's folder, or of its own /tmp."""
        os.remove(place(path))
        return f"deleted {path}"

    return file_write, file_read, file_list, file_delete


file_write, file_read, file_list, file_delete = _file_tools()
del _file_tools
