"""What uvicorn loads in each web process: the application and the protocol, with one register of
connections.
"""

import os
import resource

from django.conf import settings
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")
_django = get_wsgi_application()

# models load only once Django is set up
from fleetwatch.front.application import Front, application_of  # noqa: E402
from fleetwatch.front.connections import Connections  # noqa: E402
from fleetwatch.front.database import Probe, conninfo  # noqa: E402
from fleetwatch.front.protocol import protocol_of  # noqa: E402
from fleetwatch.ingest.door import Door  # noqa: E402
from fleetwatch.lib import allocator  # noqa: E402

# Of one address. Agents behind one router need one each for as long as a request takes.
CONNECTIONS_PER_ADDRESS = 256
MOST_CONNECTIONS = 8192
# Open files of the process that are neither a connection of a peer nor what is sent to it: the
# database, Redis.
OTHER_FILES = 256
FILES_PER_CONNECTION = 2  # its own, and one that is sent from where it lies


def _room_for_connections() -> int:
    """How many connections the process may have open, after asking for as many as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS * FILES_PER_CONNECTION + OTHER_FILES
    files = wanted if most == resource.RLIM_INFINITY else min(most, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return max(files - OTHER_FILES, files // 2) // FILES_PER_CONNECTION


allocator.keep_freed()
register = Connections(per_address=CONNECTIONS_PER_ADDRESS, in_all=_room_for_connections())
_pool = settings.DATABASES["default"].get("OPTIONS", {}).get("pool") or {"max_size": 0}
front = Front(Door(_django), pool=_pool["max_size"], ask_database=Probe(conninfo()).ask)
Protocol = protocol_of(register, front.known_batches, proxies=settings.ALLAUTH_TRUSTED_PROXY_COUNT)
application = application_of(front, register)
allocator.spare_loaded()
