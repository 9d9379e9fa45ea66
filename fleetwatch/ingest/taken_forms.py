"""In which forms batches are taken, as an answer's headers say it
(https://www.w3.org/TR/ldp/#header-accept-post). Pure.
"""

from agent import packed

FORMS = {"Accept-Post": f"application/json, {packed.CONTENT_TYPE}"}
