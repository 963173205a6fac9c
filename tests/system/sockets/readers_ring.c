/* SPDX-License-Identifier: BSD-2-Clause */
/* readers_ring tcp|udp|self PORT COUNT [unseen]: listens, or is bound, as any program, and receives by io_uring.
 * Each of COUNT connections begins with "message N"; for udp each of COUNT datagrams after the first is "message N".
 * self: makes its ring and then connects to itself. unseen: the program makes the ring by no call of liburing that
 * the interposer can see. Exit status 0: every message was right; 77: no io_uring here. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef HAVE_URING
#include <liburing.h>

static struct io_uring ring;
static char buf[2000];
static int strange;

static int made(bool unseen)
{
	void *lib = dlopen("liburing.so.2", RTLD_NOW);
	int (*init)(unsigned, struct io_uring *, unsigned) = NULL;

	if (lib)
		*(void **)&init = dlsym(lib, "io_uring_queue_init");
	return unseen && init ? init(8, &ring, 0) : io_uring_queue_init(8, &ring, 0);
}

static int done(void)
{
	struct io_uring_cqe *cqe;
	int rc;

	io_uring_submit(&ring);
	if (io_uring_wait_cqe(&ring, &cqe) < 0)
		exit(1);
	rc = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
	return rc;
}

static int accepts(int listener)
{
	io_uring_prep_accept(io_uring_get_sqe(&ring), listener, NULL, NULL, 0);
	return done();
}

static int receives(int fd)
{
	int n;

	io_uring_prep_recv(io_uring_get_sqe(&ring), fd, buf, sizeof buf, 0);
	n = done();
	strange += n > 0 && (n < 8 || memcmp(buf, "message ", 8) != 0);
	return n;
}

static void serve(int listener, int count)
{
	for (int i = 0; i < count; i++) {
		int fd = accepts(listener), n;

		if (fd < 0)
			exit(1);
		while ((n = receives(fd)) > 0) {
			io_uring_prep_send(io_uring_get_sqe(&ring), fd, buf, (size_t)n, 0);
			done();
		}
		close(fd);
	}
}

static void serve_itself(int listener, int count)
{
	struct sockaddr_in to;
	socklen_t len = sizeof to;

	getsockname(listener, (void *)&to, &len);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < count; i++) {
		int from = socket(AF_INET, SOCK_STREAM, 0), fd;

		if (connect(from, (void *)&to, sizeof to) < 0 || (fd = accept(listener, NULL, NULL)) < 0 ||
		    send(from, "message 1", 9, 0) != 9 || receives(fd) <= 0 || send(fd, "message 2", 9, 0) != 9 ||
		    receives(from) <= 0)
			exit(1);
		close(fd);
		close(from);
	}
}

static int bound(int type, int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, type, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(fd, (void *)&at, sizeof at) < 0 || (type == SOCK_STREAM && listen(fd, 100) < 0)) {
		perror("bind");
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	bool self = argc > 3 && !strcmp(argv[1], "self"), tcp = self || (argc > 3 && !strcmp(argv[1], "tcp"));
	int fd = argc > 3 ? bound(tcp ? SOCK_STREAM : SOCK_DGRAM, atoi(argv[2])) : -1, rc;

	if (!tcp && recv(fd, buf, sizeof buf, 0) < 0)
		return 1;
	rc = made(argc > 4);
	if (rc < 0) {
		printf("no io_uring: %s\n", strerror(-rc));
		return 77;
	}
	if (self)
		serve_itself(fd, atoi(argv[3]));
	else if (tcp)
		serve(fd, atoi(argv[3]));
	else
		for (int i = 0; i < atoi(argv[3]); i++)
			if (receives(fd) <= 0)
				return 1;
	printf("strange %d\n", strange);
	return strange != 0;
}
#else
int main(void)
{
	puts("built without liburing");
	return 77;
}
#endif
