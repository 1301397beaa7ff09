"""`/web`: try the environment by hand. One page, no build step, nothing from elsewhere."""

from importlib.resources import files

PAGE = files(__name__).joinpath("page.html").read_bytes()

HEADERS = {
    "content-security-policy": "default-src 'self'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
