#!/usr/bin/env python3
"""`curl -f URL` for health checks in images whose Python image has no curl. Installing curl replaces it.

Takes `-f`, `-s`, `-S`, `-o FILE` and their long forms, sends GET, and exits as curl does: 22 for HTTP 400 and above with
`-f`, 7 if nobody answers.
"""

import argparse
import sys
import urllib.error
import urllib.request

parser = argparse.ArgumentParser(prog="curl", description="A small stand-in for curl: GET only.")
parser.add_argument("url")
parser.add_argument("-f", "--fail", action="store_true", help="exit with 22 for HTTP 400 and above, and print nothing")
parser.add_argument("-s", "--silent", action="store_true", help="accepted; there is no progress to hide")
parser.add_argument("-S", "--show-error", action="store_true", help="accepted; errors are always shown")
parser.add_argument("-o", "--output", help="a file for the body, instead of stdout")
given = parser.parse_args()

try:
    with urllib.request.urlopen(given.url if "://" in given.url else f"http://{given.url}", timeout=30) as answer:
        status, body = answer.status, answer.read()
except urllib.error.HTTPError as error:
    status, body = error.code, error.read()
except (OSError, ValueError) as error:
    sys.exit(print(f"curl: (7) {error}", file=sys.stderr) or 7)
if given.fail and status >= 400:
    sys.exit(print(f"curl: (22) HTTP {status}", file=sys.stderr) or 22)
if given.output:
    with open(given.output, "wb") as file:
        file.write(body)
else:
    sys.stdout.buffer.write(body)
