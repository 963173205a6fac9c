# SPDX-License-Identifier: BSD-2-Clause
# mdns.py serve: announces a service by multicast DNS until it is ended. mdns.py ask COUNT: resolves it COUNT times,
# each time with an empty cache.
import signal
import socket
import sys

from zeroconf import IPVersion, ServiceInfo, Zeroconf

TYPE = "_diw._udp.local."
NAME = "it." + TYPE
zc = Zeroconf(interfaces=["127.0.0.1"], ip_version=IPVersion.V4Only)
if sys.argv[1] == "serve":
    zc.register_service(ServiceInfo(TYPE, NAME, 4711, addresses=[socket.inet_aton("192.0.2.77")], server="it.local."))
    print("serves", flush=True)
    signal.sigwait([signal.SIGTERM])
    sys.exit(0)
found = 0
for i in range(int(sys.argv[2])):
    zc.cache.cache.clear()
    zc.cache.service_cache.clear()
    info = ServiceInfo(TYPE, NAME)
    if info.request(zc, 5000) and info.port == 4711 and info.parsed_addresses() == ["192.0.2.77"]:
        found += 1
print("found", found)
