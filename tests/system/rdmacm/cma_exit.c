/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A signal's handler calls exit(3) while its thread holds locks of the library, here in fork(2). The process ends all
 * the same. qperf's server ends by such a handler.
 */
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/rdmacm/cma_kit.h"

static volatile sig_atomic_t in_fork;

static void quit(int sig)
{
	(void)sig;
	exit(7);                        /* NOLINT(bugprone-signal-handler): this is what is tested */
}

static void quit_in_fork(void)
{
	if (in_fork)
		raise(SIGQUIT);
}

/* Handlers of the parent run in the order of their registration, and the libraries' constructors come later: the
 * libraries hold their locks when this one runs. */
static void before_constructors(void)
{
	pthread_atfork(NULL, quit_in_fork, NULL);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_constructors;

static void exit_in_fork(void)
{
	CHECK(rsocket(AF_INET, SOCK_STREAM, 0) >= 0, "a socket is open");
	in_fork = 1;
	if (fork() == 0) {
		in_fork = 0;
		_exit(0);
	}
}

/* The status of a process that calls RUN, or -1: it did not end within a time that is longer than librdmacm waits for
 * the peers of open sockets. */
static int status_of(void (*run)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGQUIT, quit);
		run();
		_exit(1);
	}
	for (int i = 0; i < 1500 && waitpid(pid, &status, WNOHANG) == 0; i++)
		usleep(10000);
	if (kill(pid, SIGKILL) == 0)
		waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
	CHECK(status_of(exit_in_fork) == 7, "exit() in a handler that interrupts fork() ends the process");
	return failed;
}
