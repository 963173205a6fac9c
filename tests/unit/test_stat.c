/* SPDX-License-Identifier: BSD-2-Clause */
/* The page of counters: what a process shows, and what a reader makes of pages that nobody should trust. */
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

#include "base/rng.h"
#include "base/statpage.h"
#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"

struct mapped { char path[300]; int fd; size_t size; uint8_t *p; mode_t mode; };

/* The page of process PID; false when there is none. Its descriptor stays open: closing it ends this process's lock. */
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
	ck_assert_int_eq(end_send(a, b, 0, 100, 0), 0);         /* no receive: a drop */
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

/* Who comes after another in its slot begins at 0, and a reader can tell them apart. */
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
		if (strcmp(c->names[i], "wakeups") != 0)        /* of the device */
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

/* Connections of one listener are told apart by their peers; one that was reset is there again when it is connected. */
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

/* More queue pairs than slots: the last ones work and count, unseen. */
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
	setenv("DIWARP_LLP", "udp", 1);         /* so many rings are beyond what an ordinary user may lock */
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

	/* By its number: a file that got its name later is mapped without one. */
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

/* A child leaves its parent's page alone, whatever it closes. */
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

/* Many queue pairs are not written before every sleep, but soon; and then a device that has nothing to do sleeps on. */
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
	for (unsigned posted = 1; posted <= 20 && in_a_row < 2; posted++) {     /* once is by chance */
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

/* ---- Pages that nobody should trust ---- */

#define NVALUES 3u
#define NSLOTS 4u

struct image {
	struct diw_stat_head head;
	char names[NVALUES][DIW_STAT_NAME];
	struct { struct diw_stat_id id; uint64_t v[NVALUES]; } slot[NSLOTS];
};

static void image_fill(struct image *im)
{
	memset(im, 0, sizeof *im);
	im->head = (struct diw_stat_head){
		.magic = DIW_STAT_MAGIC, .version = DIW_STAT_VERSION, .nvalues = NVALUES, .ncounters = 2,
		.slots_off = offsetof(struct image, slot), .slot_size = sizeof im->slot[0],
		.values_off = sizeof(struct diw_stat_id), .slots = NSLOTS, .used = 3, .pid = 1, .program = "prog",
	};
	strcpy(im->names[0], "first");
	strcpy(im->names[1], "of_a_later_version");
	strcpy(im->names[2], "gauge");
	for (unsigned i = 0; i < NSLOTS; i++) {
		im->slot[i].id.seq = i == 1 ? 2 : 1;
		im->slot[i].id.num = i;
		strcpy(im->slot[i].id.device, "diw_x");
		for (unsigned k = 0; k < NVALUES; k++)
			im->slot[i].v[k] = 10 * i + k;
	}
}

/* Another build's page, with other counters than ours. */
START_TEST(page_of_another_build)
{
	struct image im;
	struct diw_stat_copy *c;
	const char *why;

	image_fill(&im);
	ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), 0);
	ck_assert_uint_eq(c->nqps, 2);
	ck_assert_uint_eq(c->qp[0].id.num, 0);
	ck_assert_uint_eq(c->qp[1].id.num, 2);
	ck_assert_uint_eq(*diw_stat_value(c, &c->qp[1], "of_a_later_version"), 21);
	ck_assert_uint_eq(*diw_stat_value(c, &c->qp[1], "gauge"), 22);
	diw_stat_copy_free(c);
}
END_TEST

/* The image with one 32-bit field of its head changed is refused, for that reason. */
static void refused(size_t field, uint32_t value, const char *reason)
{
	struct image im;
	struct diw_stat_copy *c;
	const char *why;

	image_fill(&im);
	memcpy((char *)&im + field, &value, sizeof value);
	ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), -EINVAL);
	ck_assert_str_eq(why, reason);
}

#define HEAD(field) offsetof(struct diw_stat_head, field)

START_TEST(damaged_heads)
{
	static const uint32_t huge[] = { 0xffffffff, 0x80000000, 0x7fffffff, 0x10000, 0xfffffff8 };

	refused(HEAD(magic), 7, "not a page of counters");
	refused(HEAD(version), 2, "a layout of another version of diwarp");
	refused(HEAD(nvalues), 0, "damaged: number of counters");
	refused(HEAD(ncounters), NVALUES + 1, "damaged: number of counters");
	refused(HEAD(nvalues), NVALUES + 1, "damaged: places");
	refused(HEAD(slots), 0, "damaged: number of slots");
	refused(HEAD(used), NSLOTS + 1, "damaged: number of slots");
	refused(HEAD(slots_off), 8, "damaged: places");
	refused(HEAD(slots_off), offsetof(struct image, slot) + 1, "damaged: places");
	refused(HEAD(slot_size), 8, "damaged: places");
	refused(HEAD(slot_size), 0, "damaged: places");
	refused(HEAD(values_off), 0, "damaged: places");
	refused(HEAD(slots_off), sizeof(struct image), "truncated");
	for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
		refused(HEAD(nvalues), huge[i], "damaged: number of counters");
		refused(HEAD(slots_off), huge[i] & ~7u, "truncated");
		refused(HEAD(slot_size), huge[i] & ~7u, "truncated");
		refused(HEAD(values_off), huge[i] & ~7u, "damaged: places");
	}
}
END_TEST

START_TEST(damaged_names)
{
	static const char *const bad[] = { "", "UPPER", "a b", "a\"b", "new\nline", "\033[2J", "9lives",
		"long_enough_to_have_no_end_in_it", "first", "gauge", "first_total", "_total" };
	struct image im;
	struct diw_stat_copy *c;
	const char *why;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		image_fill(&im);
		memset(im.names[1], 0, DIW_STAT_NAME);
		memcpy(im.names[1], bad[i], strlen(bad[i]));
		ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), -EINVAL);
		ck_assert_str_eq(why, "damaged: names");
	}
	image_fill(&im);
	memset(im.head.program, '\033', sizeof im.head.program);
	memset(im.slot[0].id.device, 0xff, sizeof im.slot[0].id.device);
	ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), 0);
	ck_assert_str_eq(c->head.program, "???????????????");
	ck_assert_str_eq(c->qp[0].id.device, "???????????????????????");
	diw_stat_copy_free(c);
}
END_TEST

/* Every length of a good page; nothing behind its end is touched, for there is nothing. */
START_TEST(truncated)
{
	const size_t pagesize = (size_t)sysconf(_SC_PAGESIZE), room = (sizeof(struct image) / pagesize + 1) * pagesize;
	uint8_t *mem = mmap(NULL, room + pagesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const size_t needed = offsetof(struct image, slot[3]);
	struct image im;

	image_fill(&im);
	ck_assert_int_eq(mprotect(mem + room, pagesize, PROT_NONE), 0);
	for (size_t size = 0; size <= sizeof im; size += 8) {
		struct diw_stat_copy *c;
		const char *why;
		int rc;

		memcpy(mem + room - size, &im, size);
		rc = diw_stat_copy(mem + room - size, size, &c, &why);
		ck_assert_int_eq(rc, size < needed ? -EINVAL : 0);
		if (rc == 0)
			diw_stat_copy_free(c);
		else
			ck_assert_str_eq(why, size < sizeof im.head ? "too small" : "truncated");
	}
	munmap(mem, room + pagesize);
}
END_TEST

static void read_all(const struct diw_stat_copy *c)
{
	static volatile uint64_t sum;

	for (uint32_t i = 0; i < c->nqps; i++)
		for (uint32_t v = 0; v < c->head.nvalues; v++)
			sum = sum + *diw_stat_value(c, &c->qp[i], c->names[v]);
	ck_assert_uint_le(c->nqps, c->head.used);
	for (const char *s = c->head.program; *s; s++)
		ck_assert(*s >= 0x20 && *s < 0x7f);
}

/* Random damage, most of it in the head, at the very end of what is readable. */
START_TEST(fuzz)
{
	const size_t pagesize = (size_t)sysconf(_SC_PAGESIZE), room = (sizeof(struct image) / pagesize + 1) * pagesize;
	uint8_t *mem = mmap(NULL, room + pagesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct diw_rng rng = { 3 };
	int good = 0, bad = 0;

	ck_assert_int_eq(mprotect(mem + room, pagesize, PROT_NONE), 0);
	for (int round = 0; round < 100000; round++) {
		uint8_t *at = mem + room - sizeof(struct image);
		struct diw_stat_copy *c;
		const char *why = NULL;
		struct image im;

		image_fill(&im);
		for (uint64_t n = 1 + diw_rng_next(&rng) % 4; n; n--) {
			size_t span = diw_rng_next(&rng) % 4 ? sizeof im.head : sizeof im;
			size_t word = diw_rng_next(&rng) % (span / 4) * 4;
			uint32_t v = (uint32_t)diw_rng_next(&rng) >> diw_rng_next(&rng) % 32;

			if (word >= 8 || diw_rng_next(&rng) % 8 == 0)    /* past the magic, mostly */
				memcpy((char *)&im + word, &v, sizeof v);
		}
		memcpy(at, &im, sizeof im);
		if (diw_stat_copy(at, sizeof im, &c, &why) == 0) {
			read_all(c);
			diw_stat_copy_free(c);
			good++;
		} else {
			ck_assert_ptr_nonnull(why);
			bad++;
		}
	}
	ck_assert_int_gt(good, 1000);
	ck_assert_int_gt(bad, 1000);
	munmap(mem, room + pagesize);
}
END_TEST

Suite *suite_stat(void)
{
	Suite *s = suite_create("stat");
	TCase *shown = tcase_create("shown"), *read = tcase_create("read");

	tcase_set_timeout(shown, 30);
	tcase_add_test(shown, shows_what_is_counted);
	tcase_add_test(shown, slot_is_used_again);
	tcase_add_test(shown, connections);
	tcase_add_test(shown, can_be_off);
	tcase_add_test(shown, more_than_slots);
	tcase_add_test(shown, survives_a_fork);
	tcase_add_test(shown, states_settle);
	suite_add_tcase(s, shown);
	tcase_set_timeout(read, 30);
	tcase_add_test(read, page_of_another_build);
	tcase_add_test(read, damaged_heads);
	tcase_add_test(read, damaged_names);
	tcase_add_test(read, truncated);
	tcase_add_test(read, fuzz);
	suite_add_tcase(s, read);
	return s;
}
