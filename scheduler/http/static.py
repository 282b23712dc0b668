"""The live page at `/`: files of the package, served from memory. They hold no data, so they need no token.

The page uses the same API as `sched` for everything that it shows and does. Its content security policy lets it load
nothing from elsewhere, run only its own modules, and make no HTML from text.
"""

import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from scheduler.http.errors import ErrorCode, error_response

_DIRECTORY = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)


@cache
def files() -> dict[str, tuple[bytes, dict[str, str]]]:
    """Files of the page by name, with their content and response headers."""
    found = {}
    for path in sorted(_DIRECTORY.iterdir()):
        if path.suffix in _TYPES:
            body = path.read_bytes()
            found[path.name] = (
                body,
                {
                    "content-type": _TYPES[path.suffix],
                    "content-security-policy": POLICY,
                    "x-content-type-options": "nosniff",
                    "referrer-policy": "no-referrer",
                    "cache-control": "no-cache",
                    "etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
                },
            )
    return found


async def _answer(request: Request) -> Response:
    name = request.path_params.get("name", "index.html")
    if name not in files():
        return error_response(404, ErrorCode.NOT_FOUND, f"file {name[:100]!r} not found")
    body, headers = files()[name]
    if headers["etag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers)


#: Plain routes without the API's dependencies: a browser requests all of them at once before it shows anything.
ROUTES = (Route("/", _answer, include_in_schema=False), Route("/page/{name}", _answer, include_in_schema=False))
