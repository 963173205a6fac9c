/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent is process 1 of the guest after /init. It runs the scripts that the host sends. Each script has a TCP
 * connection of its own. So one boot serves all tests, and servers and clients run side by side.
 *
 * The host sends "SECONDS BYTES\n" and a script of BYTES bytes. The agent sends the output of the script and then
 * "\n@exit STATUS\n"; STATUS is 124 when the script took longer than SECONDS. When the host closes the connection, the
 * agent kills the script. When a script ends, the agent kills the other processes of its process group.
 *
 * On the host, "agent tsc" prints the frequency of the time stamp counter in kHz, for the guest's command line.
 */
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define SCRIPT_MAX (1 << 17)	/* the longest argument that the kernel accepts */

static int listen_on(int port)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, 64)) {
		perror("agent");
		exit(1);
	}
	return fd;
}

/* Reads a request: returns its script, or NULL if it is invalid; *ms is its time limit. */
static char *request(FILE *in, int *ms)
{
	int seconds, bytes;
	char *script;

	if (fscanf(in, "%d %d", &seconds, &bytes) != 2 || fgetc(in) != '\n' || seconds < 0 || seconds > 86400 ||
	    bytes < 0 || bytes >= SCRIPT_MAX)
		return NULL;
	script = calloc(1, bytes + 1);
	if (!script || fread(script, 1, bytes, in) != (size_t)bytes)
		return NULL;
	*ms = seconds * 1000;
	return script;
}

static pid_t launch(int fd, const char *script)
{
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		if (!freopen("/dev/null", "r", stdin) || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
			_exit(126);
		execl("/bin/bash", "bash", "-c", script, (char *)NULL);
		_exit(127);
	}
	return pid;
}

static int serve(int fd)
{
	FILE *in = fdopen(fd, "r");
	int ms, raw, status = 124;
	char *script = in ? request(in, &ms) : NULL;
	pid_t pid = script ? launch(fd, script) : -1;
	struct pollfd wait[2] = {{.fd = fd, .events = POLLRDHUP}, {.events = POLLIN}};

	if (pid < 0)
		return 1;
	wait[1].fd = syscall(SYS_pidfd_open, pid, 0);
	poll(wait, 2, ms);
	if (wait[1].revents && waitpid(pid, &raw, 0) == pid)
		status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
	kill(-pid, SIGKILL);
	dprintf(fd, "\n@exit %d\n", status);
	return 0;
}

/* The time and the counter at one instant. Of 100 tries the quickest counts: it was interrupted least. */
static double instant(uint64_t *tsc)
{
	uint64_t least = UINT64_MAX, before, after;
	struct timespec now;
	double at = 0;

	for (int i = 0; i < 100; i++) {
		before = __rdtsc();
		clock_gettime(CLOCK_MONOTONIC, &now);
		after = __rdtsc();
		if (after - before >= least)
			continue;
		least = after - before;
		*tsc = before + least / 2;
		at = now.tv_sec + now.tv_nsec / 1e9;
	}
	return at;
}

static int print_tsc(void)
{
	uint64_t first, last;
	double begin = instant(&first), end;

	usleep(100000);
	end = instant(&last);
	printf("%.0f\n", (last - first) / (end - begin) / 1e3);
	return 0;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc > 1 && strcmp(argv[1], "tsc") == 0)
		return print_tsc();
	fd = listen_on(argc > 1 ? atoi(argv[1]) : 7);
	puts("@ready");
	fflush(stdout);
	for (;;) {
		int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		/* Process 1 inherits every orphan. */
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (peer < 0)
			continue;
		if (fork() == 0) {
			close(fd);
			_exit(serve(peer));
		}
		close(peer);
	}
}
