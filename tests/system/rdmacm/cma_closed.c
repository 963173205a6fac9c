/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1 and rsockets in a program that closes all descriptors, as daemons do, and whose files then get the
 * numbers. The files are left alone, and new identifiers and sockets work. Or the program has closed its standard
 * streams. Each case is a child.
 */
#include <rdma/rsocket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/system/rdmacm/cma_kit.h"

#define FILES 60
#define TEXT "the program's own"
#define FAR 500                         /* a second number of each file, which shares its offset */

/* ---- Files ---- */

static void files_open(void)
{
	for (int fd = 3; fd < FAR; fd++)
		close(fd);
	for (int i = 0; i < FILES; i++) {
		int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

		if (fd < 0 || write(fd, TEXT, sizeof TEXT) != sizeof TEXT || lseek(fd, 0, SEEK_SET) ||
		    dup2(fd, FAR + i) < 0)
			exit(2);
	}
}

static bool file_is_as_it_was(int i)
{
	struct stat near, far;
	char got[2 * sizeof TEXT];

	return fstat(3 + i, &near) == 0 && fstat(FAR + i, &far) == 0 && near.st_ino == far.st_ino &&
	       lseek(FAR + i, 0, SEEK_CUR) == 0 && pread(FAR + i, got, sizeof got, 0) == sizeof TEXT &&
	       memcmp(got, TEXT, sizeof TEXT) == 0;
}

static bool files_are_as_they_were(void)
{
	int n = 0;

	for (int i = 0; i < FILES; i++)
		n += file_is_as_it_was(i);
	return n == FILES;
}

/* ---- Uses ---- */

static struct rdma_event_channel *srv, *cli;
static struct rdma_cm_id *l, *a, *b;

static bool connects(void)
{
	struct rdma_cm_event *ev;
	uint16_t port;

	srv = rdma_create_event_channel();
	cli = rdma_create_event_channel();
	l = srv && cli ? listener(srv, RDMA_PS_TCP, &port) : NULL;
	a = l ? asker(cli, RDMA_PS_TCP, port) : NULL;
	if (!a || rdma_connect(a, NULL) || !(ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST)))
		return false;
	b = ev->id;
	return make_qp(b) && rdma_accept(b, NULL) == 0 && rdma_ack_cm_event(ev) == 0 &&
	       comes(cli, RDMA_CM_EVENT_ESTABLISHED) && comes(srv, RDMA_CM_EVENT_ESTABLISHED);
}

static bool all_end(void)
{
	return destroy(a) == 0 && destroy(b) == 0 && rdma_destroy_id(l) == 0;
}

static bool sockets_talk(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	int s = rsocket(AF_INET, SOCK_STREAM, 0), c = rsocket(AF_INET, SOCK_STREAM, 0), d;
	char got[sizeof TEXT];

	if (s < 0 || c < 0 || rbind(s, (struct sockaddr *)&at, len) || rlisten(s, 1) ||
	    rgetsockname(s, (struct sockaddr *)&at, &len) || rconnect(c, (struct sockaddr *)&at, len))
		return false;
	d = raccept(s, NULL, NULL);
	return d >= 0 && rsend(c, TEXT, sizeof TEXT, 0) == sizeof TEXT &&
	       rrecv(d, got, sizeof got, MSG_WAITALL) == sizeof TEXT;
}

/* ---- Cases ---- */

static void unused(void)
{
	CHECK(connects() && all_end(), "identifiers come and go");
	rdma_destroy_event_channel(srv);
	rdma_destroy_event_channel(cli);
	files_open();
	CHECK(connects() && all_end(), "others do after descriptors were closed");
	CHECK(files_are_as_they_were(), "no file is touched");
}

static void used(void)
{
	struct rdma_cm_id *old[3];

	CHECK(connects(), "a connection");
	memcpy(old, (struct rdma_cm_id *[]){ a, b, l }, sizeof old);
	files_open();
	usleep(200000);
	CHECK(connects(), "another after descriptors were closed");
	CHECK(all_end(), "it ends");
	CHECK(files_are_as_they_were(), "no file is touched");
	CHECK(destroy(old[0]) == 0 && destroy(old[1]) == 0 && rdma_destroy_id(old[2]) == 0, "the old ones end");
	CHECK(connects(), "a third connection works");
}

static void sockets(void)
{
	CHECK(sockets_talk(), "sockets talk");
	files_open();
	usleep(200000);
	CHECK(sockets_talk(), "others do after descriptors were closed");
	CHECK(files_are_as_they_were(), "no file is touched");
}

/* What it prints would be written into the descriptors of the library. */
static void silent(void)
{
	struct ibv_comp_channel *channel;

	for (int fd = 0; fd < 3; fd++)
		close(fd);
	channel = connects() ? ibv_create_comp_channel(a->verbs) : NULL;
	for (int fd = 0; fd < 3; fd++)
		failed |= fcntl(fd, F_GETFD) >= 0;
	failed |= !channel || ibv_destroy_comp_channel(channel) || !all_end();
}

static void child(void (*run)(void), const char *what)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		run();
		_exit(failed);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, what);
}

int main(void)
{
	child(unused, "a program that closes descriptors without identifiers");
	child(used, "... with identifiers");
	child(sockets, "... with rsockets");
	child(silent, "a program without standard streams prints into none of the library's descriptors");
	return failed;
}
