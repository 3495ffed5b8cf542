"""Exit code 0 if the node in this container is ready: `python healthcheck.py`."""

import json
import os
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 4


def main() -> int:
    host = os.environ.get("OTTLA_HTTP_ADDRESS") or "127.0.0.1"
    host = "127.0.0.1" if host == "0.0.0.0" else host
    url = f"http://{host}:{os.environ.get('OTTLA_HTTP_PORT', '8080')}/health"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            json.load(answer)
        return 0
    except urllib.error.HTTPError as refused:
        sys.stdout.write(refused.read().decode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        sys.stdout.write(f"{url}: {error}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
