/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that close every descriptor while they have objects, as daemons do, or that may have few. Each is a child
 * with a time limit. */
#include "of_pair.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct side rc[2], uc[2], ud;
static struct ibv_comp_channel *channel;

static void everything(void)
{
	open_all();
	channel = ibv_create_comp_channel(dev);
	CHECK(channel && pair_open(&rc[0], &rc[1], IBV_QPT_RC, 0) && pair_open(&uc[0], &uc[1], IBV_QPT_UC, 0) &&
	      side_open(&ud, IBV_QPT_UD, 0, NULL) && to_init(&ud) == 0 && to_rtr(&ud, 0) == 0 && to_rts(&ud) == 0,
	      "objects of all kinds");
	CHECK(post_recv(&rc[1], HALF, 8, 1) == 0 && post_send(&rc[0], 0, 8, 2) == 0 &&
	      next_is(&rc[0], 2, IBV_WC_SUCCESS) && next_is(&rc[1], 1, IBV_WC_SUCCESS), "a message");
}

static bool all_gone(void)
{
	return pair_close(&rc[0], &rc[1]) == 0 && pair_close(&uc[0], &uc[1]) == 0 && side_close(&ud) == 0 &&
	       ibv_destroy_comp_channel(channel) == 0 && close_all() == 0;
}

static double cpu(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static void close_from(int first)
{
	for (int fd = first; fd < 1024; fd++)
		close(fd);
}

static void idle(void)
{
	double before;

	everything();
	close_from(3);
	usleep(100000);
	before = cpu();
	usleep(1000000);
	CHECK(cpu() - before < 0.3, "no thread is busy");
	CHECK(all_gone(), "all of it is destroyed");
}

static void at_once(void)
{
	everything();
	close_from(3);
	CHECK(all_gone(), "all of it is destroyed at once");
	open_all();
	CHECK(pair_open(&rc[0], &rc[1], IBV_QPT_RC, 0) && post_recv(&rc[1], HALF, 8, 1) == 0 &&
	      post_send(&rc[0], 0, 8, 2) == 0 && next_is(&rc[1], 1, IBV_WC_SUCCESS) &&
	      pair_close(&rc[0], &rc[1]) == 0 && close_all() == 0, "a device that is opened then works");
}

static void *await_event(void *arg)
{
	struct ibv_async_event ev;

	ibv_get_async_event(dev, &ev);
	return arg;
}

/* It may wait for ever, as with the kernel, but it must not keep others from ending. */
static void waiting(void)
{
	struct ibv_cq *cq;
	pthread_t t;
	double before;

	everything();
	cq = ibv_create_cq(dev, 4, NULL, channel, 0);
	CHECK(cq && pthread_create(&t, NULL, await_event, NULL) == 0, "a thread that waits for an event");
	usleep(100000);
	close_from(3);
	before = cpu();
	usleep(500000);
	CHECK(cpu() - before < 0.3, "no thread is busy");
	CHECK(pair_close(&rc[0], &rc[1]) == 0 && ibv_destroy_cq(cq) == 0, "objects are destroyed");
}

static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Each limit up to that with which a device opens: a failure says so, and leaves nothing open. */
static void few_for_a_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = NULL;
	int bad = 0, before = descriptors();

	for (rlim_t n = 4; n < 64 && !c; n++) {
		struct rlimit limit = { n, 4096 };

		setrlimit(RLIMIT_NOFILE, &limit);
		errno = 0;
		c = ibv_open_device(list[0]);
		bad += !c && (errno != EMFILE || descriptors() != before);
	}
	CHECK(c && bad == 0 && ibv_close_device(c) == 0 && descriptors() == before,
	      "a device needs descriptors: EMFILE, and none is left open");
	ibv_free_device_list(list);
}

/* Each limit up to that with which all of it works: what fails says so. */
static void few(void)
{
	int bad = 0, good = 0;

	few_for_a_device();
	open_all();
	for (rlim_t n = 4; n < 64 && !good; n++) {
		struct rlimit limit = { n, 4096 };

		setrlimit(RLIMIT_NOFILE, &limit);
		errno = 0;
		good = side_open(&rc[0], IBV_QPT_RC, 0, NULL);
		bad += !good && errno != EMFILE;
		if (good)
			side_close(&rc[0]);
	}
	CHECK(good && bad == 0, "an RC queue pair needs descriptors: EMFILE");
}

/* ---- Files that have the numbers of closed descriptors ---- */

#define FILES 64
#define TEXT "the program's own"
#define FAR 500                      /* a second number of each file, which shares its offset */

static void files_open(void)
{
	for (int i = 0; i < FILES; i++) {
		int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

		if (fd < 0 || write(fd, TEXT, sizeof TEXT) != sizeof TEXT || lseek(fd, 0, SEEK_SET) ||
		    dup2(fd, FAR + i) < 0)
			exit(2);
	}
}

static int files_changed(void)
{
	char got[2 * sizeof TEXT];
	int n = 0;

	for (int i = 0; i < FILES; i++)
		n += lseek(FAR + i, 0, SEEK_CUR) != 0 || pread(FAR + i, got, sizeof got, 0) != sizeof TEXT ||
		     memcmp(got, TEXT, sizeof TEXT) != 0;
	return n;
}

static void reused(void)
{
	struct ibv_cq *cq;
	pthread_t t;

	everything();
	cq = ibv_create_cq(dev, 4, NULL, channel, 0);
	CHECK(cq && pthread_create(&t, NULL, await_event, NULL) == 0, "a thread that waits for an event");
	usleep(100000);
	close_from(3);
	files_open();
	usleep(300000);
	ibv_modify_qp(rc[0].qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE);
	ibv_modify_qp(rc[1].qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE);
	CHECK(pair_close(&rc[0], &rc[1]) == 0 && ibv_destroy_cq(cq) == 0, "objects are destroyed");
	open_all();
	CHECK(pair_open(&rc[0], &rc[1], IBV_QPT_RC, 0), "a device is opened");
	CHECK(files_changed() == 0, "no file is read, nor written");
}

static void child(void (*run)(void), const char *what)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		failed = 0;
		run();
		_exit(failed);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, what);
}

int main(void)
{
	child(idle, "a program that closes all descriptors, and waits");
	child(at_once, "... and destroys its objects at once");
	child(few, "a program that has few descriptors");
	child(waiting, "... while a thread waits");
	child(reused, "... and whose files get the numbers");
	return failed;
}
