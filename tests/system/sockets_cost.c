/* SPDX-License-Identifier: BSD-2-Clause */
/* CPU time of a send and a receive of BYTES on lo, in ns: the best of some rounds. tests/system/sockets/cost
 * compares. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define ROUNDS 15
#define TIMES 20000

static double cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

int main(int argc, char **argv)
{
	static char buf[65536];
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, from;
	size_t n = argc > 1 ? (size_t)atoi(argv[1]) : 1316;
	int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof to, from_len;
	double best = 1e18;

	if (n > sizeof buf || bind(a, (void *)&to, len) || getsockname(a, (void *)&to, &len))
		return 1;
	recv(a, buf, sizeof buf, MSG_DONTWAIT);
	for (int round = 0; round < ROUNDS; round++) {
		double begin = cpu_ns();

		for (int i = 0; i < TIMES; i++) {
			from_len = sizeof from;
			if (sendto(b, buf, n, 0, (void *)&to, len) != (ssize_t)n ||
			    recvfrom(a, buf, sizeof buf, 0, (void *)&from, &from_len) != (ssize_t)n)
				return 1;
		}
		begin = (cpu_ns() - begin) / TIMES;
		best = begin < best ? begin : best;
	}
	printf("%.0f\n", best);
	return 0;
}
