"""The web process: granian loads `application` from here. Batches meet the door before Django."""

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")

_django = get_wsgi_application()

from fleetwatch.ingest.door import Door  # noqa: E402 - models load only once Django is set up

application = Door(_django)
# What is loaded by now lives as long as the process: collections need not look at it.
gc.collect()
gc.freeze()
