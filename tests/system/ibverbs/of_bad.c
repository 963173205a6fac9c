/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that pass invalid arguments, or end in the middle of a transfer.
 * usage: of_bad [OTHER]        the checks; OTHER: a second device
 *        of_bad fresh N        a program from its beginning: a pair, and messages between them; it has N descriptors
 *        then
 *        of_bad processes N    N of these at the same time
 */
#define SIZE (1u << 20)
#include "of_pair.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG (256u << 10)

static int inherited;                   /* descriptors when this program began */

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n - 3;                           /* ".", "..", and its own */
}

/* ---- Requests ---- */

static int post(struct side *s, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	int rc = ibv_post_send(s->qp, &wr, &bad);

	return rc && bad != &wr ? -1 : rc;
}

static void requests(enum ibv_qp_type type)
{
	struct ibv_sge sge[32], half[2] = { { (uintptr_t)mem, 1u << 30, mr->lkey }, { (uintptr_t)mem, 1, mr->lkey } };
	struct ibv_recv_wr r = { .sg_list = sge, .num_sge = 32 }, *bad_r = NULL;
	struct ibv_send_wr *bad = NULL;
	struct side a = { 0 }, b = { 0 };
	struct ibv_wc wc;

	for (int i = 0; i < 32; i++)
		sge[i] = sge_at(0, 8);
	CHECK(pair_open(&a, &b, type, 0), type == IBV_QPT_RC ? "nonsense on RC" : "nonsense on UC");
	CHECK(ibv_post_send(a.qp, NULL, &bad) == 0 && ibv_post_recv(a.qp, NULL, &bad_r) == 0, "lists of nothing");
	CHECK(ibv_poll_cq(a.cq, 0, &wc) == 0 && ibv_poll_cq(a.cq, 0, NULL) == 0, "polling for nothing");
	CHECK(post(&a, (struct ibv_send_wr){ .sg_list = sge, .num_sge = 32 }) == EINVAL, "more entries than agreed");
	CHECK(post(&a, (struct ibv_send_wr){ .sg_list = sge, .num_sge = -1 }) == EINVAL, "fewer than none");
	CHECK(post(&a, (struct ibv_send_wr){ .num_sge = 1 }) == EINVAL, "entries that are nowhere");
	CHECK(post(&a, (struct ibv_send_wr){ .sg_list = half, .num_sge = 2 }) == EINVAL, "more than max_msg_sz");
	half[0].length = (16u << 20) + 1;
	CHECK(type == IBV_QPT_RC || post(&a, (struct ibv_send_wr){ .sg_list = half, .num_sge = 1,
								   .opcode = IBV_WR_SEND }) == EINVAL,
	      "a Send longer than 16 MiB on UC");
	half[0].length = 1u << 30;
	CHECK(post(&a, (struct ibv_send_wr){ .sg_list = half, .num_sge = 1, .send_flags = IBV_SEND_INLINE }) == EINVAL,
	      "more inline data than agreed");
	CHECK(post(&a, (struct ibv_send_wr){ .opcode = (enum ibv_wr_opcode)-1 }) == EINVAL &&
	      post(&a, (struct ibv_send_wr){ .opcode = (enum ibv_wr_opcode)200 }) == EINVAL, "no such operation");
	CHECK(post(&a, (struct ibv_send_wr){ .opcode = IBV_WR_TSO }) == EINVAL, "one that nobody has");
	CHECK(type == IBV_QPT_RC || post(&a, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_READ }) == EINVAL,
	      "one that this type has not");
	CHECK(ibv_post_recv(a.qp, &r, &bad_r) == EINVAL && bad_r == &r, "a receive of more entries than agreed");
	r.num_sge = -1;
	CHECK(ibv_post_recv(a.qp, &r, &bad_r) == EINVAL, "... of fewer than none");
	CHECK(post_recv(&b, HALF, 8, 1) == 0 && post_send(&a, 0, 8, 2) == 0 && next_is(&a, 2, IBV_WC_SUCCESS) &&
	      next_is(&b, 1, IBV_WC_SUCCESS), "and none of it has left a trace");
	CHECK(pair_close(&a, &b) == 0, "destroyed");
}

/* ---- Keys ---- */

/* The result of a request of this kind with these keys, on a connection of its own. */
static enum ibv_wc_status outcome(enum ibv_wr_opcode op, uint32_t lkey, uint32_t rkey, uint64_t remote, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mem, len, lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED };
	struct side a = { 0 }, b = { 0 };
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.remote_addr = remote;
	} else {
		wr.wr.rdma.rkey = rkey;
		wr.wr.rdma.remote_addr = remote;
	}
	if (!pair_open(&a, &b, IBV_QPT_RC, 0) || post(&a, wr) || !next_wc(&a, &wc, 30) || wc.wr_id != 7 ||
	    (wc.status != IBV_WC_SUCCESS && state_of(&a) != IBV_QPS_ERR))
		wc.status = IBV_WC_FATAL_ERR;
	pair_close(&a, &b);
	return wc.status;
}

static bool all_are(uint32_t rkey, uint64_t remote, uint32_t len, enum ibv_wc_status status)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };
	bool good = true;

	for (int i = 0; i < 3; i++) {
		bool atomic = ops[i] == IBV_WR_ATOMIC_FETCH_AND_ADD;
		enum ibv_wc_status is = outcome(ops[i], mr->lkey, rkey, remote, atomic ? 8 : len);

		if (is != status)
			printf("# operation %d: %s\n", ops[i], ibv_wc_status_str(is));
		good = good && is == status;
	}
	return good;
}

static void keys(void)
{
	static uint8_t mine[4096] __attribute__((aligned(8)));
	struct ibv_pd *another = ibv_alloc_pd(dev);
	struct ibv_mr *theirs = ibv_reg_mr(another, mine, sizeof mine, ALL_ACCESS);
	struct ibv_mr *local = ibv_reg_mr(pd, mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE), *gone;
	const uint64_t at = (uintptr_t)mine, begin = (uintptr_t)mem;
	uint32_t key;

	CHECK(all_are(mr->rkey, begin + HALF, 64, IBV_WC_SUCCESS), "the right key");
	CHECK(all_are(0, begin, 64, IBV_WC_REM_ACCESS_ERR) && all_are(~0u, begin, 64, IBV_WC_REM_ACCESS_ERR),
	      "keys of nothing: remote access error");
	CHECK(all_are(mr->rkey ^ 1, begin, 64, IBV_WC_REM_ACCESS_ERR), "a key that is off by one");
	CHECK(all_are(theirs->rkey, at, 64, IBV_WC_REM_ACCESS_ERR), "another domain's region");
	CHECK(all_are(local->rkey, at, 64, IBV_WC_REM_ACCESS_ERR), "a region without access");
	CHECK(all_are(mr->rkey, begin + SIZE, 64, IBV_WC_REM_ACCESS_ERR) &&
	      all_are(mr->rkey, begin - 8, 64, IBV_WC_REM_ACCESS_ERR), "behind the region, and before it");
	CHECK(outcome(IBV_WR_RDMA_WRITE, mr->lkey, mr->rkey, begin + SIZE - 8, 64) == IBV_WC_REM_ACCESS_ERR &&
	      outcome(IBV_WR_RDMA_READ, mr->lkey, mr->rkey, begin + SIZE - 8, 64) == IBV_WC_REM_ACCESS_ERR,
	      "across its end");
	gone = ibv_reg_mr(pd, mine, sizeof mine, ALL_ACCESS);
	key = gone->rkey;
	ibv_dereg_mr(gone);
	CHECK(all_are(key, at, 64, IBV_WC_REM_ACCESS_ERR), "a region that is no more");
	CHECK(outcome(IBV_WR_SEND, key, 0, 0, 8) == IBV_WC_LOC_PROT_ERR &&
	      outcome(IBV_WR_RDMA_WRITE, 0, mr->rkey, begin, 8) == IBV_WC_LOC_PROT_ERR &&
	      outcome(IBV_WR_SEND, theirs->lkey, 0, 0, 8) == IBV_WC_LOC_PROT_ERR &&
	      outcome(IBV_WR_SEND, mr->lkey, 0, 0, SIZE + 1) == IBV_WC_LOC_PROT_ERR,
	      "local keys: local protection error");
	CHECK(ibv_dereg_mr(theirs) == 0 && ibv_dereg_mr(local) == 0 && ibv_dealloc_pd(another) == 0,
	      "all is given back");
}

/* ---- Programs that do not poll ---- */

/* A read of memory that a peer writes is a race without a remedy. */
__attribute__((noinline, no_sanitize_thread))
static bool arrives(volatile const uint8_t *at, uint8_t what)
{
	double until = seconds() + 30;

	while (*at != what && seconds() < until)
		poll(NULL, 0, 1);
	return *at == what;
}

static void never_polls(enum ibv_qp_type type)
{
	struct side a = { 0 }, b = { 0 };
	int rc = 0;

	CHECK(pair_open(&a, &b, type, 0), type == IBV_QPT_RC ? "RC that nobody polls" : "UC that nobody polls");
	memset(mem, 0, SIZE);
	memset(mem, 0x5a, DEPTH);
	for (uint32_t i = 0; i < DEPTH; i++)
		post_recv(&b, HALF + i, 1, i);
	/* Complete requests have left the queue. It is full when its completion queue is, or the peer's receives are
	 * used up. */
	for (uint32_t n = 0; n < 16 * DEPTH && rc == 0; n++)
		rc = post_send(&a, n % DEPTH, 1, n);
	CHECK(rc == ENOMEM, "is full in the end");
	CHECK(arrives(mem + HALF + DEPTH - 1, 0x5a), "... which arrive");
	CHECK(pair_close(&a, &b) == 0, "destroyed");
}

/* ---- fork and exec ---- */

static bool exits_well(pid_t pid, double limit)
{
	double until = seconds() + limit;
	int status = -1;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		if (seconds() > until) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			printf("# process %d: killed\n", (int)pid);
			return false;
		}
		poll(NULL, 0, 5);
	}
	if (status)
		printf("# process %d: status %#x\n", (int)pid, status);
	return status == 0;
}

/* A pair and messages between them, from the beginning. */
static int fresh(void)
{
	struct side a = { 0 }, b = { 0 };

	open_all();
	if (!pair_open(&a, &b, IBV_QPT_RC, 0))
		return 1;
	for (uint64_t i = 0; i < 50; i++) {
		memset(mem, (int)i + 1, 64);
		if (post_recv(&b, HALF, 64, i) || post_send(&a, 0, 64, i) || !next_is(&b, i, IBV_WC_SUCCESS) ||
		    !next_is(&a, i, IBV_WC_SUCCESS) || mem[HALF + 63] != i + 1)
			return 1;
	}
	return pair_close(&a, &b) | close_all();
}

static void become_fresh(const char *self)
{
	char n[16];

	snprintf(n, sizeof n, "%d", inherited);
	execl("/proc/self/exe", self, "fresh", n, NULL);
	_exit(9);
}

/* No inherited object works; new ones do. 0, or the number of the one that failed. */
static int child(struct side *a)
{
	struct ibv_sge sge = sge_at(0, 8);
	struct ibv_recv_wr r = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc;

	if (post_send(a, 0, 8, 1) == 0 || ibv_post_recv(a->qp, &r, &bad) == 0)
		return 2;
	if (ibv_poll_cq(a->cq, 1, &wc) > 0 || ibv_req_notify_cq(a->cq, 0) == 0)
		return 3;
	if (ibv_reg_mr(pd, mem, 64, 0) || ibv_alloc_pd(dev) || ibv_create_cq(dev, 8, NULL, NULL, 0))
		return 4;
#ifdef __SANITIZE_THREAD__              /* it ends a child that starts a thread */
	return 0;
#else
	return fresh() ? 5 : 0;
#endif
}

static bool passes(struct side *a, struct side *b, uint64_t id)
{
	return post_recv(b, HALF, 8, id) == 0 && post_send(a, 0, 8, id) == 0 && next_is(a, id, IBV_WC_SUCCESS) &&
	       next_is(b, id, IBV_WC_SUCCESS);
}

static void forks(const char *self)
{
	struct side a = { 0 }, b = { 0 };
	pid_t pid;

	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0) && passes(&a, &b, 1), "a pair");
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(child(&a));
	CHECK(exits_well(pid, 60), "a child has no use of it, and may have devices of its own");
	CHECK(passes(&a, &b, 2), "the parent has");
	pid = fork();
	if (pid == 0)
		become_fresh(self);
	CHECK(exits_well(pid, 60), "another program inherits no descriptor, and runs");
	CHECK(passes(&a, &b, 3), "the pair goes on");
	pair_close(&a, &b);
}

/* ---- kill -9, in the middle of a transfer ---- */

struct shared {
	uint32_t qpn[2], rkey;
	uint64_t addr;
	volatile uint32_t ready[2];
};

static bool await(volatile const uint32_t *flag)
{
	double until = seconds() + 30;

	while (!*flag && seconds() < until)
		poll(NULL, 0, 1);
	return *flag;
}

/* This end of a connection between two processes; WHICH has told the other its address. */
static bool meet(struct shared *sh, int which, struct side *s)
{
	if (!side_open(s, IBV_QPT_RC, 0, NULL) || to_init(s))
		return false;
	sh->qpn[which] = s->qp->qp_num;
	if (which == 0) {
		sh->rkey = mr->rkey;
		sh->addr = (uintptr_t)mem;
	}
	sh->ready[which] = 1;
	return await(&sh->ready[!which]) && to_rtr(s, sh->qpn[!which]) == 0 && to_rts(s) == 0;
}

static int post_write(struct side *s, const struct shared *sh)
{
	struct ibv_sge sge = sge_at(HALF, LONG);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.rkey = sh->rkey;
	wr.wr.rdma.remote_addr = sh->addr;
	return post(s, wr);
}

/* Writes until one fails. Returns its status. */
static enum ibv_wc_status write_on(struct side *s, const struct shared *sh, double limit)
{
	double until = seconds() + limit;
	struct ibv_wc wc = { 0 };

	memset(mem + HALF, 0x77, LONG);
	for (int i = 0; i < 8; i++)
		post_write(s, sh);
	while (seconds() < until)
		if (ibv_poll_cq(s->cq, 1, &wc) == 1) {
			if (wc.status)
				break;
			post_write(s, sh);
		}
	return wc.status;
}

/* TCP may take some messages before it learns that the peer is gone. */
static enum ibv_wc_status send_on(struct side *s, double limit)
{
	double until = seconds() + limit;
	struct ibv_wc wc = { 0 };

	while (wc.status == IBV_WC_SUCCESS && seconds() < until && post_send(s, 0, 8, 6) == 0)
		next_wc(s, &wc, limit);
	return wc.status;
}

static bool gave_up(enum ibv_wc_status status)
{
	if (status != IBV_WC_RETRY_EXC_ERR)
		printf("# %s\n", ibv_wc_status_str(status));
	return status == IBV_WC_RETRY_EXC_ERR;
}

/* PARENT_WRITES: the parent writes, otherwise the child. The writer's peer is killed, or the writer itself. */
static void killed(bool parent_writes)
{
	struct shared *sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct side s = { 0 };
	int before;
	pid_t pid;

	fflush(stdout);
	pid = fork();                           /* no device is open yet */
	if (pid == 0) {
		open_all();
		if (!meet(sh, parent_writes ? 0 : 1, &s))
			_exit(1);
		if (!parent_writes)
			write_on(&s, sh, 60);
		pause();
		_exit(1);
	}
	before = descriptors();
	open_all();
	CHECK(meet(sh, parent_writes ? 1 : 0, &s), parent_writes ? "who is written to" : "who writes");
	if (parent_writes) {
		CHECK(post_write(&s, sh) == 0 && next_is(&s, 0, IBV_WC_SUCCESS), "is connected");
		for (int i = 0; i < 8; i++)
			post_write(&s, sh);
	} else {
		CHECK(arrives(mem, 0x77), "writes are under way");
		CHECK(post_recv(&s, HALF, 8, 5) == 0, "a receive is posted");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (parent_writes) {
		CHECK(gave_up(write_on(&s, sh, 30)) && state_of(&s) == IBV_QPS_ERR,
		      "is killed: retries exceeded");
	} else {
		CHECK(gave_up(send_on(&s, 30)) && next_is(&s, 5, IBV_WC_WR_FLUSH_ERR),
		      "is killed: a Send finds out, and the receive is flushed");
	}
	CHECK(side_close(&s) == 0 && close_all() == 0, "everything is closed");
	CHECK(descriptors() == before, "... every descriptor, too");
	munmap(sh, sizeof *sh);
}

/* ---- Two devices ---- */

static void two_devices(const char *name)
{
	struct ibv_context *other = open_named(name);
	struct ibv_pd *there = ibv_alloc_pd(other);
	struct ibv_cq *cq = ibv_create_cq(other, 16, NULL, NULL, 0), *here = ibv_create_cq(dev, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr a = { .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_UD, .send_cq = cq, .recv_cq = cq };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(there, &sa);
	struct ibv_mr *theirs = ibv_reg_mr(there, mem, 4096, ALL_ACCESS);
	struct ibv_qp *qp;

	CHECK(there && cq && srq && theirs, "a second device");
	CHECK(REFUSED(ibv_create_qp(pd, &a), EINVAL), "its completion queue is not for the first one's queue pair");
	a.send_cq = a.recv_cq = here;
	CHECK(REFUSED(ibv_create_qp(there, &a), EINVAL), "nor the other way");
	a.srq = srq;
	CHECK(REFUSED(ibv_create_qp(pd, &a), EINVAL), "nor its shared receive queue");
	a.srq = NULL;
	CHECK(all_are(theirs->rkey, (uintptr_t)mem, 64, IBV_WC_REM_ACCESS_ERR) &&
	      outcome(IBV_WR_SEND, theirs->lkey, 0, 0, 8) == IBV_WC_LOC_PROT_ERR, "nor are its keys");
	a.send_cq = a.recv_cq = cq;
	qp = ibv_create_qp(there, &a);
	CHECK(qp && ibv_destroy_qp(qp) == 0, "each has its own");
	ibv_dereg_mr(theirs);
	ibv_destroy_srq(srq);
	ibv_destroy_cq(cq);
	ibv_destroy_cq(here);
	CHECK(ibv_dealloc_pd(there) == 0 && ibv_close_device(other) == 0, "closed");
}

/* ---- Many processes ---- */

static int processes(const char *self, int n)
{
	pid_t *pid = calloc((size_t)n, sizeof *pid);
	int good = 0;

	for (int i = 0; i < n; i++) {
		fflush(stdout);
		pid[i] = fork();
		if (pid[i] == 0)
			become_fresh(self);
	}
	for (int i = 0; i < n; i++)
		good += pid[i] > 0 && exits_well(pid[i], 100);
	printf("# %d processes\n", n);
	CHECK(good == n, "many processes at a time");
	free(pid);
	return failed;
}

int main(int argc, char **argv)
{
	inherited = descriptors();
	if (argc == 3 && strcmp(argv[1], "fresh") == 0)
		return inherited == atoi(argv[2]) ? fresh() : 8;
	if (argc == 3 && strcmp(argv[1], "processes") == 0)
		return processes(argv[0], atoi(argv[2]));
	killed(true);
	killed(false);
	open_all();
	requests(IBV_QPT_RC);
	requests(IBV_QPT_UC);
	keys();
	never_polls(IBV_QPT_RC);
	never_polls(IBV_QPT_UC);
	forks(argv[0]);
	if (argc == 2)
		two_devices(argv[1]);
	CHECK(close_all() == 0, "everything is closed");
	return failed;
}
