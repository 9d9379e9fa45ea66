"""Static files, also of another version of FleetWatch than this web host's."""

import re
from typing import Any

from django.http import HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware

# as ManifestStaticFilesStorage names them: a hash of the content before the suffix
HASHED = re.compile(r"(.+)\.[0-9a-f]{12}(\.\w+)")


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # it brings no types
    """While hosts behind a balancer are upgraded one after the other, a page of one names files
    that the next one lacks: it answers with its own file of that name, to be kept for a minute.
    """

    def __call__(self, request: HttpRequest) -> Any:
        path = request.path_info
        if path not in self.files and (hashed := HASHED.fullmatch(path)):
            own = self.files.get("".join(hashed.groups()))
            if own is not None:
                return self.serve(own, request)
        return super().__call__(request)
