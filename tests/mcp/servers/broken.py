"""A server on bare JSON lines that speaks 2025-11-25 alone, and goes wrong in the way that its argument names."""

import json
import os
import signal
import sys

TOOLS = [
    {
        "name": "work",
        "description": "Works.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    },
    {"name": "go-wrong", "inputSchema": {"type": "object"}},
]
TOLD = []


def say(message):
    print(json.dumps(message), flush=True)


def answer(id, result):
    say({"jsonrpc": "2.0", "id": id, "result": result})


def listed(mode):
    if mode == "twice":
        return [*TOOLS, {"name": "go_wrong", "inputSchema": {"type": "object"}}]
    if mode == "odd":
        nested = {"type": "object", "properties": {"deep": {"type": "array", "items": {"$ref": "#/$defs/x"}}}}
        properties = {
            "class": {"enum": ["a", "b", None]},
            "a-b": nested,
            "a_b": {"default": 3},
            "ü": {"type": ["string", "null"]},
        }
        schema = {"type": "object", "properties": properties, "required": ["ü"], "$defs": {"x": {"type": "integer"}}}
        return [
            {"name": "odd tool!", "title": "Odd", "inputSchema": schema},
            {"name": "3d", "inputSchema": {"type": "object"}},
        ]
    return TOOLS


def go_wrong(mode, id):
    match mode:
        case "dies":
            print("a last word, and a token: s3cret-value", file=sys.stderr, flush=True)
            os.kill(os.getpid(), 9)
        case "hangs":
            while True:
                sys.stdin.read()
        case "silent":
            return
        case "garbage":
            print("this is no JSON", flush=True)
        case "garbage_first":
            print("a banner on stdout\n{}\n[1, 2]", flush=True)
            answer(id, {"content": [{"type": "text", "text": "and then the answer"}]})
        case "nonsense":
            answer(id, {"content": "not a list"})
        case "error":
            say({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no, with s3cret-value"}})
        case "stranger":
            answer(999, {"content": []})
        case "leaves":
            answer(id, {"content": [{"type": "text", "text": "goodbye"}]})
            sys.exit(0)


def main(mode):
    if mode == "exits":
        sys.exit("no license for s3cret-value")
    if mode == "mute":
        while sys.stdin.readline():
            pass
        while True:  # does not even leave when its input is closed
            signal.pause()
    for line in sys.stdin:
        request = json.loads(line)
        if mode == "strict" and not TOLD and request["method"] != "initialize":
            sys.exit(f"expected initialize, got {request['method']}")
        TOLD.append(request["method"])
        id, method, params = request.get("id"), request["method"], request.get("params", {})
        match method:
            case "initialize":
                told = {"name": "broken", "version": "1"}
                answer(id, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": told})
            case "tools/list":
                answer(id, {"tools": listed(mode)})
            case "tools/call" if params["name"] == "work":
                answer(id, {"content": [{"type": "text", "text": f"{os.getpid()} {params.get('arguments')}"}]})
            case "tools/call":
                go_wrong(mode, id)
            case _ if id is not None:
                say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": f"no {method}"}})


if __name__ == "__main__":
    main(sys.argv[1])
