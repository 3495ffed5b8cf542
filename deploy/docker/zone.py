"""Prints the zone of the machine that this pod runs on: `python3 zone.py MACHINE`.

Kubernetes tells a pod the name of its machine but not the machine's labels, so they are asked for. The account needs
`get` on nodes. A machine without a zone, or a cluster that does not tell, is no reason not to start: then nothing is
printed, and the node has no rack.
"""

import json
import os
import ssl
import sys
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("SERVICE_ACCOUNT_DIR", "/var/run/secrets/kubernetes.io/serviceaccount"))
ZONE = "topology.kubernetes.io/zone"
TIMEOUT_S = 5


def zone_of(machine: str) -> str:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    shown = f"[{host}]" if ":" in host else host
    token = (ACCOUNT / "token").read_text().strip()
    request = urllib.request.Request(
        f"https://{shown}:{port}/api/v1/nodes/{machine}", headers={"Authorization": f"Bearer {token}"}
    )
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=trusted) as answer:
        labels = json.load(answer)["metadata"].get("labels", {})
    return str(labels.get(ZONE, ""))


def main() -> None:
    try:
        sys.stdout.write(zone_of(sys.argv[1]))
    except (OSError, KeyError, ValueError) as error:
        sys.stderr.write(f"zone: the zone of {sys.argv[1]} is not known: {error!r}\n")


if __name__ == "__main__":
    main()
