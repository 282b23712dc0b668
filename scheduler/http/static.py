"""The live page at `/`: files of the package, served from memory. They hold no data, so they need no token.

The page asks the same API as `sched` for all that it shows and does. Its policy lets it load nothing from elsewhere,
run no script but its own modules, and make no HTML of text.
"""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Header
from starlette.responses import Response

from scheduler.errors import NotFound

router = APIRouter(include_in_schema=False)

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
    """Every file of the page by its name: what it holds, and the headers that it is sent with."""
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


@router.get("/")
async def index(if_none_match: str = Header(default="")) -> Response:
    return _answer("index.html", if_none_match)


@router.get("/page/{name}")
async def part(name: str, if_none_match: str = Header(default="")) -> Response:
    return _answer(name, if_none_match)


def _answer(name: str, if_none_match: str) -> Response:
    if name not in files():
        raise NotFound(f"the page has no {name[:100]!r}")
    body, headers = files()[name]
    if headers["etag"] in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers)
