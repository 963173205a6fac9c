/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_left: a call that sends or receives on a stream is interrupted (tests/preload/short.c). The interrupted
 * code never continues, continues later, or its process is killed. The program checks the stream afterwards. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "streams_kit.h"

typedef void hook_fn(int fd, bool sends);

static hook_fn *_Atomic *hook;
static struct ends e;
static sigjmp_buf out;
static int in_handler, in_handler_errno;

/* ---- What happens in the middle ---- */

static void interrupts(int fd, bool sends)
{
	(void)fd;
	(void)sends;
	*hook = NULL;
	raise(SIGUSR1);
}

static void dies(int fd, bool sends)
{
	(void)fd;
	(void)sends;
	kill(getpid(), SIGKILL);
}

static void leaves(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static void sends_too(int sig)
{
	(void)sig;
	in_handler = (int)send(e.a, "handler", 7, MSG_NOSIGNAL);
	in_handler_errno = errno;
}

static void receives_too(int sig)
{
	char c;

	(void)sig;
	in_handler = (int)recv(e.b, &c, 1, 0);
	in_handler_errno = errno;
}

static void handles(void (*handler)(int), int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };

	sigaction(SIGUSR1, &sa, NULL);
}

/* ---- It is left ---- */

static ssize_t moves(bool sends)
{
	char c;

	return sends ? send(e.a, "x", 1, MSG_NOSIGNAL) : recv(e.b, &c, 1, 0);
}

/* From a frame that is younger than the one that was left, and has written where that was. */
static __attribute__((noinline)) ssize_t moves_deeper(bool sends)
{
	volatile char room[32768];
	ssize_t rc;

	memset((char *)room, 1, sizeof room);
	rc = moves(sends);
	return room[77] == 1 ? rc : -2;
}

static void left(bool sends, bool deeper)
{
	int cancel;

	e = pair();
	handles(leaves, 0);
	if (!sends)
		check("something is there", send(e.a, "there", 5, 0) == 5 && ready(e.b, POLLIN));
	if (sigsetjmp(out, 1) == 0) {
		*hook = interrupts;
		moves(sends);
		check("a signal handler left it", false);
	}
	check(sends ? "a send was left" : "a receive was left", *hook == NULL);
	check("... the next tells of a reset", (deeper ? moves_deeper(sends) : moves(sends)) < 0 &&
	      errno == ECONNRESET);
	check("... and so do others", moves(sends) < 0 && errno == ECONNRESET);
	check("... the thread can be cancelled as before",
	      pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel) == 0 && cancel == PTHREAD_CANCEL_ENABLE);
	if (sends)
		check("... the other way goes on", send(e.b, "y", 1, 0) == 1 && recv(e.a, (char[1]){ 0 }, 1, 0) == 1);
	done(e);
}

/* ---- It goes on ---- */

static void interrupted(bool sends, bool elsewhere)
{
	char buf[16] = "";

	e = pair();
	handles(sends ? sends_too : receives_too, elsewhere ? SA_ONSTACK : 0);
	in_handler = 0;
	if (!sends)
		check("something is there", send(e.a, "there", 5, 0) == 5 && ready(e.b, POLLIN));
	*hook = interrupts;
	check("one that is interrupted goes on", sends ? send(e.a, "first", 5, 0) == 5 :
	      recv(e.b, buf, sizeof buf, 0) == 5 && memcmp(buf, "there", 5) == 0);
	check("... the handler's own was refused", in_handler == -1 && in_handler_errno == EINTR);
	if (sends)
		check("... all of it came, once", recv(e.b, buf, sizeof buf, 0) == 5 && memcmp(buf, "first", 5) == 0);
	check("... and both ways go on", talks(e));
	done(e);
}

/* ---- Its holder is no more ---- */

static void killed(bool sends, bool zombie)
{
	siginfo_t info;
	pid_t child;

	e = pair();
	if (!sends)
		check("something is there", send(e.a, "there", 5, 0) == 5 && ready(e.b, POLLIN));
	child = fork();
	if (child == 0) {
		*hook = dies;
		moves(sends);
		_exit(1);
	}
	check("who holds it is killed", waitid(P_PID, (id_t)child, &info, WEXITED | (zombie ? WNOWAIT : 0)) == 0 &&
	      info.si_code == CLD_KILLED);
	check("... the next tells of a reset", moves(sends) < 0 && errno == ECONNRESET);
	if (sends)
		check("... the other way goes on", send(e.b, "y", 1, 0) == 1 && recv(e.a, (char[1]){ 0 }, 1, 0) == 1);
	if (zombie)
		waitpid(child, NULL, 0);
	done(e);
}

int main(void)
{
	stack_t other = { .ss_size = 1 << 16 };

	hook = (hook_fn *_Atomic *)dlsym(RTLD_DEFAULT, "short_hook");
	other.ss_sp = mmap(NULL, other.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!hook || other.ss_sp == MAP_FAILED || sigaltstack(&other, NULL) < 0)
		return 1;
	for (int sends = 0; sends < 2; sends++) {
		for (int i = 0; i < 2; i++) {
			left(sends, i);
			interrupted(sends, i);
			killed(sends, i);
		}
	}
	puts("end");
	return failed > 0;
}
