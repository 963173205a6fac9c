/* SPDX-License-Identifier: BSD-2-Clause */
/* The counter page of a process. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/statpage.h"
#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"

struct mapped { char path[300]; int fd; size_t size; uint8_t *p; mode_t mode; };

/* Maps the page of process PID; false: there is none. Its descriptor stays open, since closing it would end this
 * process's lock. */
static bool page_of(pid_t pid, struct mapped *m)
{
	char prefix[32];
	const struct dirent *e;
	struct stat st;
	DIR *dir = opendir(DIW_STAT_DIR);
	bool found = false;

	ck_assert_ptr_nonnull(dir);
	snprintf(prefix, sizeof prefix, DIW_STAT_PREFIX "%d.", (int)pid);
	while (!found && (e = readdir(dir)))
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0) {
			snprintf(m->path, sizeof m->path, DIW_STAT_DIR "/%s", e->d_name);
			found = true;
		}
	closedir(dir);
	if (!found)
		return false;
	m->fd = open(m->path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(m->fd, 0);
	ck_assert_int_eq(fstat(m->fd, &st), 0);
	m->size = (size_t)st.st_size;
	m->mode = st.st_mode;
	m->p = mmap(NULL, m->size, PROT_READ, MAP_SHARED, m->fd, 0);
	ck_assert_ptr_ne(m->p, MAP_FAILED);
	return true;
}

static struct diw_stat_copy *copy_of(const struct mapped *m)
{
	struct diw_stat_copy *c;
	const char *why;

	ck_assert_msg(diw_stat_copy(m->p, m->size, &c, &why) == 0, "%s", why);
	return c;
}

static const struct diw_stat_qp *qp_at(const struct diw_stat_copy *c, const struct end *e)
{
	for (uint32_t i = 0; i < c->nqps; i++)
		if (diw_addr_eq(&c->qp[i].id.local, &e->addr))
			return &c->qp[i];
	return NULL;
}

static void counters_are_equal(const struct mapped *m, struct end *e)
{
	uint64_t v[256];
	int n = diw_qp_counters(e->qp, v, 256);
	struct diw_stat_copy *c = copy_of(m);
	const struct diw_stat_qp *qp = qp_at(c, e);

	ck_assert_ptr_nonnull(qp);
	ck_assert_uint_eq(c->head.ncounters, (unsigned)n);
	for (int i = 0; i < n; i++) {
		ck_assert_str_eq(c->names[i], diw_counter_name(i));
		ck_assert_msg(qp->values[i] == v[i], "%s: %llu shown, %llu counted", c->names[i],
			      (unsigned long long)qp->values[i], (unsigned long long)v[i]);
	}
	diw_stat_copy_free(c);
}

static void exchange(struct end *a, struct end *b)
{
	uint64_t dropped = end_counter(b, "rx_no_recv");
	struct diw_wc wc;

	ck_assert_int_eq(end_recv(b, 4096, 4096, 1), 0);
	ck_assert_int_eq(end_send(a, b, 0, 100, 0), 0);
	ck_assert_int_eq(diw_cq_wait(b->rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(end_write(a, b, 0, 5000, 0), 0);
	ck_assert_int_eq(diw_cq_wait(b->rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(end_send(a, b, 0, 100, 0), 0);         /* there is no receive: a drop */
	for (int i = 0; i < KIT_LIMIT_MS && end_counter(b, "rx_no_recv") == dropped; i++)
		ck_assert_int_eq(diw_cq_wait(b->rcq, &wc, 1, DIW_MS), 0);
}

START_TEST(shows_what_is_counted)
{
	struct kit k;
	struct end a, b;
	struct mapped m;
	struct diw_stat_copy *c;

	kit_open(&k, DIW_PROGRESS_INLINE);
	ck_assert(!page_of(getpid(), &m));
	end_open(&a, &k, NULL, 16);
	end_open(&b, &k, NULL, 16);
	exchange(&a, &b);
	ck_assert(page_of(getpid(), &m));
	ck_assert_uint_eq(m.mode, S_IFREG | 0600);
	counters_are_equal(&m, &a);
	counters_are_equal(&m, &b);
	ck_assert_int_eq(end_recv(&b, 4096, 4096, 1), 0);
	ck_assert_int_eq(diw_cq_wait(b.rcq, &(struct diw_wc){ 0 }, 1, DIW_MS), 0);
	c = copy_of(&m);
	ck_assert_uint_eq(c->nqps, 2);
	ck_assert_uint_eq(c->head.pid, (unsigned)getpid());
	ck_assert_str_eq(qp_at(c, &b)->id.device, "diw_lo");
	ck_assert_uint_eq(*diw_stat_value(c, qp_at(c, &b), "rx_no_recv"), 1);
	ck_assert_uint_eq(*diw_stat_value(c, qp_at(c, &b), "rq_posted"), 1);
	ck_assert_uint_gt(*diw_stat_value(c, qp_at(c, &b), "wakeups"), 0);
	ck_assert_ptr_null(diw_stat_value(c, qp_at(c, &b), "nonsense"));
	diw_stat_copy_free(c);
	end_close(&a);
	end_close(&b);
	ck_assert_msg(access(m.path, F_OK) < 0, "%s is left", m.path);
	kit_close(&k);
}
END_TEST

static int counter_of(const char *name)
{
	int i = 0;

	while (i < diw_counter_count() && strcmp(diw_counter_name(i), name) != 0)
		i++;
	return i;
}

/* A library above counts what it drops, and nothing else. */
START_TEST(shows_what_a_library_counts)
{
	static const char *const own[] = {
		"fabric_malformed", "fabric_stray", "fabric_flood", "fabric_no_room", "fabric_refused",
		"fabric_held",
	};
	const uint64_t n = sizeof own / sizeof *own;
	int mine = 0;
	struct mapped m;
	struct kit k;
	struct end a;

	kit_open(&k, DIW_PROGRESS_INLINE);
	end_open(&a, &k, NULL, 16);
	ck_assert(page_of(getpid(), &m));
	for (uint64_t i = 0; i < n; i++)
		ck_assert_int_eq(diw_qp_count(a.qp, counter_of(own[i]), i + 1), 0);
	for (uint64_t i = 0; i < n; i++)
		ck_assert_uint_eq(end_counter(&a, own[i]), i + 1);
	for (int i = -1; i <= diw_counter_count(); i++) {
		int rc = diw_qp_count(a.qp, i, 1);

		ck_assert(rc == 0 || rc == -EINVAL);
		mine += rc == 0;
	}
	ck_assert_uint_eq((unsigned)mine, n);
	counters_are_equal(&m, &a);
	end_close(&a);
	kit_close(&k);
}
END_TEST

/* The next queue pair in a slot begins at 0, and a reader can distinguish them. */
START_TEST(slot_is_used_again)
{
	struct kit k;
	struct end a, b, second;
	struct mapped m;
	struct diw_stat_copy *c;
	uint32_t slot;
	uint64_t seq;

	kit_open(&k, DIW_PROGRESS_INLINE);
	end_open(&a, &k, NULL, 16);
	end_open(&b, &k, NULL, 16);
	exchange(&b, &a);
	ck_assert(page_of(getpid(), &m));
	c = copy_of(&m);
	slot = qp_at(c, &a)->slot;
	seq = qp_at(c, &a)->id.seq;
	diw_stat_copy_free(c);
	end_close(&a);
	c = copy_of(&m);
	ck_assert_uint_eq(c->nqps, 1);
	diw_stat_copy_free(c);
	end_open(&second, &k, NULL, 16);
	c = copy_of(&m);
	ck_assert_uint_eq(c->nqps, 2);
	ck_assert_uint_eq(qp_at(c, &second)->slot, slot);
	ck_assert_uint_ne(qp_at(c, &second)->id.seq, seq);
	for (uint32_t i = 0; i < c->head.ncounters; i++)
		if (strcmp(c->names[i], "wakeups") && strcmp(c->names[i], "thread_receives"))   /* of the device */
			ck_assert_uint_eq(qp_at(c, &second)->values[i], 0);
	diw_stat_copy_free(c);
	end_close(&second);
	end_close(&b);
	kit_close(&k);
}
END_TEST

static void connections_shown(const struct mapped *m, uint32_t n)
{
	struct diw_stat_copy *c = copy_of(m);

	ck_assert_uint_eq(c->nqps, n);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < i; k++)
			ck_assert(!diw_addr_eq(&c->qp[i].id.local, &c->qp[k].id.local) ||
				  !diw_addr_eq(&c->qp[i].id.peer, &c->qp[k].id.peer));
	diw_stat_copy_free(c);
}

/* Connections of one listener are distinguished by their peers. A queue pair that was reset is shown again when it is
 * connected. */
START_TEST(connections)
{
	struct diw_listener_info info;
	struct diw_cm_event ev;
	struct mapped m;
	struct end a, b;
	struct pair p;

	pair_open(&p, NULL, NULL);
	pair_connect(&p, &a, &b, NULL, NULL);
	ck_assert(page_of(getpid(), &m));
	connections_shown(&m, 4);
	ck_assert_int_eq(diw_abort(a.qp), 0);
	cm_event(&p, DIW_CM_DISCONNECTED);
	cm_event(&p, DIW_CM_DISCONNECTED);
	ck_assert_int_eq(diw_qp_reset(a.qp), 0);
	ck_assert_int_eq(diw_qp_reset(b.qp), 0);
	connections_shown(&m, 2);
	ck_assert_int_eq(diw_listener_query(p.listener, &info), 0);
	ck_assert_int_eq(diw_connect(a.qp, p.cm, &info.local, NULL), 0);
	ev = cm_event(&p, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(ev.req, b.qp, NULL), 0);
	cm_event(&p, DIW_CM_ESTABLISHED);
	cm_event(&p, DIW_CM_ESTABLISHED);
	connections_shown(&m, 4);
	end_close(&a);
	end_close(&b);
	connections_shown(&m, 2);
	pair_close(&p);
}
END_TEST

START_TEST(can_be_off)
{
	struct kit k;
	struct end a, b;
	struct mapped m;

	setenv("DIWARP_STAT", "off", 1);
	kit_open(&k, DIW_PROGRESS_INLINE);
	end_open(&a, &k, NULL, 16);
	end_open(&b, &k, NULL, 16);
	exchange(&a, &b);
	ck_assert(!page_of(getpid(), &m));
	ck_assert_uint_eq(end_counter(&b, "rx_no_recv"), 1);
	end_close(&a);
	end_close(&b);
	kit_close(&k);
	unsetenv("DIWARP_STAT");
}
END_TEST

/* More queue pairs than slots: the last ones work and count, but are not shown. */
START_TEST(more_than_slots)
{
	enum { N = DIW_STAT_SLOTS + 2 };
	struct rlimit files = { N * 3, N * 3 };
	struct end *e = calloc(N, sizeof *e);
	struct diw_qp_attr attr;
	struct kit k;
	struct mapped m;
	struct diw_stat_copy *c;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	ck_assert_uint_ge(files.rlim_cur, N + 64);
	setenv("DIWARP_LLP", "udp", 1);         /* an ordinary user may not lock memory for that many rings */
	kit_open(&k, DIW_PROGRESS_INLINE);
	for (int i = 0; i < N; i++) {
		end_attr(&attr);
		attr.dgram.max_sources = attr.dgram.max_records = 16;
		attr.send_cq = attr.recv_cq = i ? e[0].rcq : NULL;
		end_open(&e[i], &k, &attr, 16);
	}
	ck_assert(page_of(getpid(), &m));
	c = copy_of(&m);
	ck_assert_uint_eq(c->nqps, DIW_STAT_SLOTS);
	ck_assert_uint_eq(c->head.hidden, 2);
	diw_stat_copy_free(c);
	ck_assert_int_eq(end_send(&e[N - 1], &e[N - 2], 0, 100, 0), 0);
	ck_assert_int_eq(diw_cq_wait(e[0].rcq, &(struct diw_wc){ 0 }, 1, 20 * DIW_MS), 0);
	ck_assert_uint_eq(end_counter(&e[N - 2], "rx_no_recv"), 1);
	end_close(&e[N - 1]);
	end_close(&e[1]);
	c = copy_of(&m);
	ck_assert_uint_eq(c->nqps, DIW_STAT_SLOTS - 1);
	ck_assert_uint_eq(c->head.hidden, 1);
	diw_stat_copy_free(c);
	for (int i = N - 2; i >= 0; i--)
		if (i != 1)
			end_close(&e[i]);
	kit_close(&k);
	free(e);
}
END_TEST

static bool maps_for_writing(const char *path)
{
	char line[512], inode[32];
	FILE *f = fopen("/proc/self/maps", "r");
	bool found = false;
	struct stat st;

	/* By its descriptor: the file has no name. */
	ck_assert_int_eq(stat(path, &st), 0);
	snprintf(inode, sizeof inode, " %lu ", (unsigned long)st.st_ino);
	while (fgets(line, sizeof line, f))
		found |= strstr(line, inode) && strstr(line, "/dev/shm/") && strstr(line, " rw");
	fclose(f);
	return found;
}

static void child_of(struct end *a, const struct mapped *parents)
{
	struct kit own;
	struct end mine;
	struct mapped m;
	pid_t holder = 0;

	ck_assert(diw_stat_is_held(parents->fd, &holder));
	ck_assert_int_eq(holder, getppid());
	ck_assert(!maps_for_writing(parents->path));
	ck_assert(!page_of(getpid(), &m));
	ck_assert_int_eq(diw_qp_destroy(a->qp), 0);
	kit_open(&own, DIW_PROGRESS_INLINE);
	end_open(&mine, &own, NULL, 16);
	ck_assert(page_of(getpid(), &m));
	counters_are_equal(&m, &mine);
	end_close(&mine);
	kit_close(&own);
	ck_assert(diw_stat_is_held(parents->fd, &holder));
}

/* A child does not change its parent's page, whatever it closes. */
START_TEST(survives_a_fork)
{
	struct kit k;
	struct end a, b;
	struct mapped m;
	struct diw_stat_copy *c;
	int status;
	pid_t pid;

	kit_open(&k, DIW_PROGRESS_INLINE);
	end_open(&a, &k, NULL, 16);
	end_open(&b, &k, NULL, 16);
	exchange(&a, &b);
	ck_assert(page_of(getpid(), &m));
	ck_assert(maps_for_writing(m.path));
	pid = fork();
	if (pid == 0) {
		child_of(&a, &m);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	c = copy_of(&m);
	ck_assert_uint_eq(c->nqps, 2);
	diw_stat_copy_free(c);
	counters_are_equal(&m, &a);
	ck_assert_int_eq(access(m.path, F_OK), 0);
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}
END_TEST

/* With many queue pairs, states are not written before every sleep, but soon. An idle device then stays asleep. */
START_TEST(states_settle)
{
	enum { N = 20 };
	struct end e[N];
	struct mapped m;
	struct kit k;
	struct diw_stat_copy *c;
	int shown, in_a_row = 0;

	kit_open(&k, DIW_PROGRESS_THREAD);
	for (int i = 0; i < N; i++)
		end_open(&e[i], &k, NULL, 16);
	ck_assert(page_of(getpid(), &m));
	for (unsigned posted = 1; posted <= 20 && in_a_row < 2; posted++) {     /* one may be by chance */
		for (int i = 0; i < N; i++)
			ck_assert_int_eq(end_recv(&e[i], 0, 100, 0), 0);
		ck_assert_int_eq(end_send(&e[0], &e[N - 1], 0, 100, 0), 0);
		sleep_ms(400);
		c = copy_of(&m);
		for (int i = shown = 0; i < N; i++)
			shown += *diw_stat_value(c, qp_at(c, &e[i]), "rq_posted") == (i < N - 1 ? posted : 0);
		diw_stat_copy_free(c);
		in_a_row = shown == N ? in_a_row + 1 : 0;
	}
	ck_assert_int_eq(in_a_row, 2);
	ck_assert_uint_le(end_wakeups(&e[0], 500), 1);
	for (int i = 0; i < N; i++)
		end_close(&e[i]);
	kit_close(&k);
}
END_TEST

/* TO receives a Send of FROM, which is acknowledged. */
static void send_acknowledged(struct end *from, struct end *to)
{
	struct diw_wc wc;

	ck_assert_int_eq(end_recv(to, 4096, 4096, 1), 0);
	ck_assert_int_eq(end_send(from, to, 0, 100, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(diw_cq_wait(from->scq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_int_eq(diw_cq_wait(to->rcq, &wc, 1, KIT_LIMIT), 1);
}

/* The page, as soon as it shows PEERS peers of E: states are written at intervals. */
static struct diw_stat_copy *copy_with_peers(const struct mapped *m, struct end *e, uint32_t peers)
{
	for (int i = 0; i < KIT_LIMIT_MS; i++) {
		struct diw_stat_copy *c = copy_of(m);
		struct diw_wc wc;

		if (qp_at(c, e)->all_peers == peers)
			return c;
		diw_stat_copy_free(c);
		ck_assert_int_eq(diw_cq_wait(e->scq, &wc, 1, DIW_MS), 0);
	}
	ck_abort_msg("the page never shows %u peers", peers);
	return NULL;
}

/* An RD queue pair shows one row for each peer, up to a bound, and the number of peers. */
START_TEST(peers_of_rd)
{
	struct kit k;
	struct end b, a[DIW_STAT_PEERS + 1];
	struct diw_qp_attr attr;
	const struct diw_stat_qp *qp;
	struct diw_stat_copy *c;
	struct mapped m;

	kit_open(&k, DIW_PROGRESS_INLINE);
	end_attr(&attr);
	attr.type = DIW_QP_RD;
	end_open(&b, &k, &attr, 16);
	for (uint32_t i = 0; i <= DIW_STAT_PEERS; i++) {
		end_open(&a[i], &k, &attr, 16);
		send_acknowledged(&a[i], &b);
	}
	ck_assert(page_of(getpid(), &m));
	c = copy_with_peers(&m, &b, DIW_STAT_PEERS + 1);
	qp = qp_at(c, &b);
	ck_assert_uint_eq(qp->npeers, DIW_STAT_PEERS);
	ck_assert(diw_addr_eq(&qp->peer[0].addr, &a[0].addr));
	qp = qp_at(c, &a[0]);
	ck_assert_uint_eq(qp->npeers, 1);
	ck_assert(diw_addr_eq(&qp->peer[0].addr, &b.addr));
	ck_assert_uint_gt(qp->peer[0].window, 0);
	ck_assert_uint_eq(qp->peer[0].flight, 0);
	ck_assert_uint_gt(qp->peer[0].srtt_ns, 0);
	ck_assert_uint_eq(qp->peer[0].retransmits, end_counter(&a[0], "rd_retransmits"));
	diw_stat_copy_free(c);
	for (uint32_t i = 0; i <= DIW_STAT_PEERS; i++)
		end_close(&a[i]);
	end_close(&b);
	kit_close(&k);
}
END_TEST

Suite *suite_stat(void)
{
	Suite *s = suite_create("stat");
	TCase *shown = tcase_create("shown");

	tcase_set_timeout(shown, 30);
	tcase_add_test(shown, shows_what_is_counted);
	tcase_add_test(shown, shows_what_a_library_counts);
	tcase_add_test(shown, slot_is_used_again);
	tcase_add_test(shown, connections);
	tcase_add_test(shown, can_be_off);
	tcase_add_test(shown, more_than_slots);
	tcase_add_test(shown, survives_a_fork);
	tcase_add_test(shown, states_settle);
	tcase_add_test(shown, peers_of_rd);
	suite_add_tcase(s, shown);
	return s;
}
