"""Images: the stable address that redirects to a fresh link, and the folder store's own downloads."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import FileResponse, RedirectResponse
from starlette.types import Receive, Scope, Send

from api import examples
from api.deps import JobId, ServicesHere
from shared.errors import ImageNotFound, InvalidRequest
from shared.storage_folder import FolderStore, check_link, content_type_of

images = APIRouter(prefix="/v1/jobs", tags=["images"])
files = APIRouter(prefix="/v1/files", tags=["images"])
"""Included only where the store is a folder."""

Number = Annotated[int, Path(description="0 for the job's first image.", examples=[0])]
Expires = Annotated[str, Query(description="Unix seconds.")]
Signature = Annotated[str, Query(description="Of the key and the time.")]
Key = Annotated[
    str, Path(description="The file's place in the store.", examples=["jobs/01KJ9QZ7W5V0T3N8M2C4X6B1AD/1/0.png"])
]

_NO_SUCH_FILE = "There is no such image: it was never made, or its retention has passed."


class WholeFile(FileResponse):
    """A file, always whole: images are small, and a refused range would be the one error that is no problem+json."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, whatever range was asked for."""
        del self.headers["accept-ranges"]
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)


def redirect_to_image(job_id: JobId, number: Number, here: ServicesHere) -> RedirectResponse:
    """Go to the image. The address stays the same; the link that it leads to expires."""
    result = here.find(job_id).result
    found = result.images if result else []
    if not 0 <= number < len(found):
        raise ImageNotFound(f"There is no image {number}; number of images that the job has now: {len(found)}.")
    image = found[number]
    link = here.store.link(image.key, here.settings.link_lifetime_s, image.content_type)
    return RedirectResponse(link, headers={"Cache-Control": "no-store"})


def download_file(key: Key, here: ServicesHere, expires: Expires, signature: Signature) -> Response:
    """An image's bytes, for whoever holds a link of ours that has not expired."""
    store = here.store
    if not isinstance(store, FolderStore):
        raise ImageNotFound(_NO_SUCH_FILE)
    check_link(key, expires, signature, time.time(), store.signing_key)
    try:
        path = store.path_of(key)
        status = path.stat()
    except (InvalidRequest, FileNotFoundError) as error:
        raise ImageNotFound(_NO_SUCH_FILE) from error
    return WholeFile(
        path,
        media_type=content_type_of(key),
        stat_result=status,
        headers={
            "Cache-Control": "private, max-age=31536000, immutable",
            "Content-Disposition": "inline",
            "X-Content-Type-Options": "nosniff",
        },
    )


for _method, _summary in (("GET", "Download an image"), ("HEAD", "Look where an image is")):
    images.add_api_route(
        "/{job_id}/images/{number:int}",
        redirect_to_image,
        methods=[_method],
        summary=_summary,
        operation_id=f"{_method.lower()}_image",
        status_code=307,
        response_class=RedirectResponse,
        responses=examples.redirect() | examples.problems(404, 410, 503),
    )

for _method, _summary in (("GET", "Download a file"), ("HEAD", "Look at a file")):
    files.add_api_route(
        "/{key:path}",
        download_file,
        methods=[_method],
        summary=_summary,
        operation_id=f"{_method.lower()}_file",
        response_class=FileResponse,
        responses=examples.image_bytes() | examples.problems(403, 404, 422),
    )
