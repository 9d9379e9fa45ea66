"""Exit status 0 when an address answers 200: the images have no curl."""

import sys
import urllib.error
import urllib.request

try:
    with urllib.request.urlopen(sys.argv[1], timeout=4) as response:
        sys.exit(0 if response.status == 200 else 1)
except (urllib.error.URLError, OSError) as error:
    sys.stderr.write("%s: %s\n" % (sys.argv[1], error))
    sys.exit(1)
