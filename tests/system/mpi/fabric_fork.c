/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Children of fork(2) while a thread looks for completions, and so often holds the domain's lock. A child can make
 * calls and close what it inherited, and the parent goes on. The calls of other threads do not wait for long.
 * usage: fabric_fork DEVICE
 */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/mpi/fabric_kit.h"

#define CHILDREN 20
#define CHILD_S 20                       /* a child that takes longer hangs */

#define CALLS 3000                       /* of another thread */
#define SLEEPS 4                         /* in such a call at most: for the lock, and behind others that wait */

static bool stop;

static void *look(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		progress();
	return NULL;
}

/* How often this thread has slept. */
static long sleeps(void)
{
	struct rusage u;

	REQUIRE(getrusage(RUSAGE_THREAD, &u) == 0);
	return u.ru_nvcsw;
}

/* A call that finds the lock held sleeps until it has the lock, and not again and again. */
static void check_turns(void)
{
	long most = 0;

	for (int i = 0; i < CALLS; i++) {
		long before;

		usleep(50);
		before = sleeps();
		progress();
		most = sleeps() - before > most ? sleeps() - before : most;
	}
	printf("a call slept %ld times\n", most);
	REQUIRE(most <= SLEEPS);
}

static void exchange(uint64_t value)
{
	struct fi_cq_tagged_entry c;
	uint64_t got = 0;

	REQUIRE(fi_trecv(b.ep, &got, 8, NULL, a.addr, 1, 0, NULL) == 0);
	REQUIRE(fi_tinject(a.ep, &value, 8, b.addr, 1) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && got == value);
}

static void child(void)
{
	struct fi_cq_tagged_entry c;

	alarm(CHILD_S);
	fi_cq_read(a.cq, &c, 1);
	ends_close();
	_exit(0);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();
	pthread_t thread;
	int status;

	REQUIRE(hints && argc == 2);
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV;
	ends_open(argv[1], FI_VERSION(1, 5), hints);
	doing = "children";
	exchange(1);
	REQUIRE(pthread_create(&thread, NULL, look, NULL) == 0);
	for (uint64_t i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (pid == 0)
			child();
		REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
		exchange(i + 2);
	}
	doing = "turns";
	check_turns();
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	REQUIRE(pthread_join(thread, NULL) == 0);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
