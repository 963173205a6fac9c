/* SPDX-License-Identifier: BSD-2-Clause */
/* The GUID of a device, made from its interface. */
#include "base/ident.h"

#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"

static uint64_t ident_fnv(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len--)
		h = (h ^ *p++) * 0x100000001b3u;
	return h;
}

/* The EUI-64 of the interface's hardware address, as RoCE devices have it. */
static bool guid_from_mac(const char *ifname, uint8_t guid[8])
{
	struct ifreq ifr = { 0 };
	int fd = diw_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;
	const uint8_t *mac = (const uint8_t *)ifr.ifr_hwaddr.sa_data;

	if (fd < 0)
		return false;
	snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", ifname);
	rc = ioctl(fd, SIOCGIFHWADDR, &ifr);
	close(fd);
	if (rc < 0 || ifr.ifr_hwaddr.sa_family != ARPHRD_ETHER)
		return false;
	memcpy(guid, mac, 3);
	guid[0] ^= 2;
	guid[3] = 0xff;
	guid[4] = 0xfe;
	memcpy(guid + 5, mac + 3, 3);
	return true;
}

/* For interfaces without a hardware address. `lo` exists in every network namespace of every host, so the GUID is a
 * hash of the name, the boot id and the namespace. */
static void guid_from_place(const char *ifname, uint8_t guid[8])
{
	uint64_t h = ident_fnv(0xcbf29ce484222325u, ifname, strlen(ifname));
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	struct stat ns;
	char id[64];
	ssize_t n;

	if (fd >= 0) {
		n = read(fd, id, sizeof id);
		h = n > 0 ? ident_fnv(h, id, (size_t)n) : h;
		close(fd);
	}
	if (stat("/proc/self/ns/net", &ns) == 0)
		h = ident_fnv(h, &ns.st_ino, sizeof ns.st_ino);
	diw_put64(guid, h);
	guid[0] = 2;                            /* locally administered */
}

void diw_ident_guid(const char *ifname, uint8_t guid[8])
{
	if (!guid_from_mac(ifname, guid))
		guid_from_place(ifname, guid);
}
