/* SPDX-License-Identifier: BSD-2-Clause */
/* Handlers that run while a thread waits for an event: SA_RESTART decides whether the call goes on, as with the system
 * calls that the kernel's rdma-core makes. */
#include "tests/system/rdmacm/cma_kit.h"

#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#define ROUND_US 1000

static struct rdma_event_channel *ch;
static struct ibv_context *verbs;
static atomic_int handled, result;     /* result: an errno; -1 while the thread waits */
static sem_t begun;

static void handler(int sig)
{
	(void)sig;
	atomic_fetch_add(&handled, 1);
}

static void *wait_cm(void *arg)
{
	struct rdma_cm_event *ev;
	int rc;

	sem_post(&begun);
	rc = rdma_get_cm_event(ch, &ev);
	atomic_store(&result, rc ? errno : 0);
	if (rc == 0)
		rdma_ack_cm_event(ev);
	return arg;
}

static void *wait_async(void *arg)
{
	struct ibv_async_event ev;

	sem_post(&begun);
	atomic_store(&result, ibv_get_async_event(verbs, &ev) ? errno : 0);
	return arg;
}

static pthread_t begin(void *(*wait)(void *), int flags)
{
	const struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };
	pthread_t t;

	sigaction(SIGUSR1, &sa, NULL);
	atomic_store(&handled, 0);
	atomic_store(&result, -1);
	pthread_create(&t, NULL, wait, NULL);
	sem_wait(&begun);
	return t;
}

/* Sends signals until N handlers have run, or the call has returned. */
static void interrupt(pthread_t t, int n)
{
	double until = seconds() + SOON_MS / 1000.0;

	while (atomic_load(&handled) < n && atomic_load(&result) < 0 && seconds() < until) {
		pthread_kill(t, SIGUSR1);
		usleep(ROUND_US);
	}
}

static void ends(void *(*wait)(void *), const char *what)
{
	pthread_t t = begin(wait, 0);

	interrupt(t, 1 << 20);
	pthread_join(t, NULL);
	CHECK(atomic_load(&result) == EINTR, what);
}

int main(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);
	struct rdma_cm_id *id;
	pthread_t t;

	sem_init(&begun, 0, 0);
	ch = rdma_create_event_channel();
	verbs = list ? list[0] : NULL;
	if (!ch || !verbs || rdma_create_id(ch, &id, NULL, RDMA_PS_TCP))
		return 2;

	t = begin(wait_cm, SA_RESTART);
	interrupt(t, 100);
	CHECK(atomic_load(&result) == -1, "rdma_get_cm_event() goes on: SA_RESTART");
	write_event(id, EVENT_USER, 0, 0);
	pthread_join(t, NULL);
	CHECK(atomic_load(&result) == 0, "... until an event comes");
	ends(wait_cm, "without SA_RESTART it fails: EINTR");

	t = begin(wait_async, SA_RESTART);
	interrupt(t, 100);
	CHECK(atomic_load(&result) == -1, "ibv_get_async_event() goes on: SA_RESTART");
	pthread_cancel(t);
	pthread_join(t, NULL);
	ends(wait_async, "without SA_RESTART it fails: EINTR");

	CHECK(rdma_destroy_id(id) == 0, "the identifier goes");
	rdma_destroy_event_channel(ch);
	rdma_free_devices(list);
	return failed;
}
