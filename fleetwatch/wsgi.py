"""The web process: granian loads `application` from here."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")

application = get_wsgi_application()
