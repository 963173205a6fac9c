/* SPDX-License-Identifier: BSD-2-Clause */
/* sendfile() and splice() between a connection with frames and a file or a pipe. They copy the data. A splice takes
 * from a pipe only what the connection has taken, and from a connection only what the pipe has room for. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include "sockets_preload/stage.h"
#include "sockets_preload/stream/stream.h"

#define FILE_CHUNK 16384u                /* read from a file at a time */
#define FILE_LITTLE 2048u                /* a connection for which poll() reports room takes this much soon */
#define PAGE 4096u                       /* a pipe takes this much at once: no architecture has smaller pages */

/* ---- sendfile() ---- */

/* Sends a piece of the file at *AT, or at the file's position, by way of BUF. */
static ssize_t send_piece(int to, int from, off_t *at, uint8_t buf[FILE_CHUNK], size_t n)
{
	off_t where = at ? *at : lseek(from, 0, SEEK_CUR);
	ssize_t got = where < 0 ? -1 : pread(from, buf, n < FILE_CHUNK ? n : FILE_CHUNK, where), rc;

	if (got < 0 && (errno == ESPIPE || (at && where < 0)))
		errno = EINVAL;
	if (got <= 0)
		return got;
	rc = send(to, buf, (size_t)got, 0);
	if (rc > 0 && at)
		*at += rc;
	else if (rc > 0)
		lseek(from, where + rc, SEEK_SET);
	return rc;
}

static ssize_t send_file(int to, int from, off_t *at, size_t n)
{
	struct diw_hold stage;
	size_t done = 0;
	ssize_t rc = 0;

	if (!diw_stage_hold(DIW_STAGE_ONE, &stage))
		return -1;
	while (done < n) {
		rc = send_piece(to, from, at, stage.mem, n - done);
		if (rc <= 0)
			break;
		done += (size_t)rc;
		if ((size_t)rc < FILE_CHUNK && done < n && diw_stream_is_nonblocking(to, 0))
			break;
	}
	diw_stage_let_go(DIW_STAGE_ONE, &stage);
	return done ? (ssize_t)done : rc;
}

/* ---- Pipes ---- */

/* Whether FD is a pipe that is open for MODE. */
static bool is_pipe(int fd, int mode)
{
	struct stat st;
	int fl;

	if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
		return false;
	fl = real.fcntl(fd, F_GETFL);
	return fl >= 0 && ((fl & O_ACCMODE) == O_RDWR || (fl & O_ACCMODE) == mode);
}

static bool pipe_waits(int fd, unsigned flags)
{
	int fl = flags & SPLICE_F_NONBLOCK ? O_NONBLOCK : real.fcntl(fd, F_GETFL);

	return fl >= 0 && !(fl & O_NONBLOCK);
}

/* The pipe's reader has closed it: fails as the kernel does. */
static ssize_t pipe_broke(void)
{
	raise(SIGPIPE);
	errno = EPIPE;
	return -1;
}

/* Bytes that were taken cannot leave yet: waits, also after signals. */
static bool waits_on(int to)
{
	return errno == EINTR ||
	       (errno == EAGAIN && (diw_stream_await(to, POLLOUT, UINT64_MAX, true) || errno == EINTR));
}

static bool put_all(int to, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t rc = real.write(to, p, n);

		if (rc < 0 && !waits_on(to))
			return false;
		p += rc > 0 ? rc : 0;
		n -= rc > 0 ? (size_t)rc : 0;
	}
	return true;
}

/* Bytes that the pipe certainly takes at once; 0: none. Each buffer of a pipe holds a page, or less. */
static size_t pipe_room(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int held = 1, size;

	if (real.poll(&p, 1, 0) != 1 || !(p.revents & (POLLOUT | POLLERR)))
		return 0;
	size = real.ioctl(fd, FIONREAD, &held) == 0 && held == 0 ? real.fcntl(fd, F_GETPIPE_SZ) : 0;
	return size > (int)PAGE ? (size_t)size : PAGE;
}

static bool is_broken(int fd)
{
	struct pollfd p = { .fd = fd };

	return real.poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

static bool await_room(int fd, unsigned flags, size_t *room)
{
	while (!(*room = pipe_room(fd))) {
		if (!pipe_waits(fd, flags)) {
			errno = EAGAIN;
			return false;
		}
		if (!diw_stream_await(fd, POLLOUT, UINT64_MAX, true))
			return false;
	}
	return true;
}

/* ---- From a socket to a pipe ---- */

/* Moves up to N bytes by way of BUF, as far as the pipe has ROOM. */
static ssize_t move_to_pipe(int from, int to, uint8_t buf[FILE_CHUNK], size_t n, size_t room)
{
	size_t done = 0;

	while (done < n && room) {
		size_t most = room < FILE_CHUNK ? room : FILE_CHUNK;
		ssize_t got = recv(from, buf, n - done < most ? n - done : most, done ? MSG_DONTWAIT : 0);

		if (got <= 0)
			return done ? (ssize_t)done : got;
		if (!put_all(to, buf, (size_t)got))
			return done ? (ssize_t)done : -1;
		done += (size_t)got;
		most = ((size_t)got + PAGE - 1) / PAGE * PAGE;
		room = room > most ? room - most : 0;
	}
	return (ssize_t)done;
}

/* The receive itself may need the thread's other stage. */
static ssize_t socket_to_pipe(int from, int to, size_t n, unsigned flags)
{
	struct diw_hold stage;
	size_t room;
	ssize_t rc;

	if (!await_room(to, flags, &room))
		return -1;
	if (is_broken(to))
		return pipe_broke();
	if (!diw_stage_hold(DIW_STAGE_MANY, &stage))
		return -1;
	rc = move_to_pipe(from, to, stage.mem, n, room);
	diw_stage_let_go(DIW_STAGE_MANY, &stage);
	return rc;
}

/* ---- From a pipe to a connection ---- */

/* Copies up to N bytes of the pipe FROM to BUF, through the pipe COPY, which never blocks. */
static ssize_t copy_input(const int copy[2], int from, uint8_t *buf, size_t n)
{
	ssize_t all = tee(from, copy[1], n, SPLICE_F_NONBLOCK), have = 0;

	while (have < all) {
		ssize_t rc = real.read(copy[0], buf + have, (size_t)(all - have));

		if (rc <= 0)
			return -1;
		have += rc;
	}
	return all;
}

/* Discards N bytes of FROM. COPY is empty, and has room for as much as a copy took. */
static bool drop_input(const int copy[2], int from, size_t n)
{
	while (n) {
		ssize_t rc = real.splice(from, NULL, copy[1], NULL, n, SPLICE_F_NONBLOCK);

		if (rc <= 0)
			return false;
		n -= (size_t)rc;
	}
	return true;
}

static ssize_t send_copy(const int copy[2], int from, int to, size_t n, int flags)
{
	struct diw_hold stage;
	ssize_t rc;

	if (!diw_stage_hold(DIW_STAGE_ONE, &stage))
		return -1;
	rc = copy_input(copy, from, stage.mem, n < DIW_STAGE ? n : DIW_STAGE);
	if (rc > 0)
		rc = send(to, stage.mem, (size_t)rc, flags | MSG_DONTWAIT);
	diw_stage_let_go(DIW_STAGE_ONE, &stage);
	return rc <= 0 || drop_input(copy, from, (size_t)rc) ? rc : -1;
}

/* No descriptor is available for a copy, or it is forbidden. The bytes that were taken must be sent, so this function
 * waits until they are. */
static DIW_COLD ssize_t send_taken(int from, int to, size_t n, int flags)
{
	struct pollfd in = { .fd = from, .events = POLLIN }, out = { .fd = to, .events = POLLOUT };
	uint8_t buf[FILE_LITTLE];
	ssize_t got, rc = 0;

	if (real.poll(&out, 1, 0) != 1 || real.poll(&in, 1, 0) != 1) {
		errno = EAGAIN;
		return -1;
	}
	got = real.read(from, buf, n < sizeof buf ? n : sizeof buf);
	for (ssize_t done = 0; done < got; done += rc > 0 ? rc : 0) {
		rc = send(to, buf + done, (size_t)(got - done), flags);
		if (rc < 0 && !waits_on(to))
			return done ? done : -1;
	}
	return got;
}

/* Sends without waiting. The thread is not cancelled while a pipe of ours is open. */
static ssize_t send_some(int from, int to, size_t n, int flags)
{
	int copy[2], cancel, saved;
	ssize_t rc;

	if (diw_is_confined() || pipe2(copy, O_CLOEXEC | O_NONBLOCK) < 0)
		return send_taken(from, to, n, flags);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	rc = send_copy(copy, from, to, n, flags);
	saved = errno;
	real.close(copy[0]);
	real.close(copy[1]);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return rc;
}

static bool has_input(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return real.poll(&p, 1, 0) != 0;
}

/* Waits for input. 1: there is some; 0: the writers have closed the pipe; -1: error. */
static int await_input(int fd, unsigned flags)
{
	while (!has_input(fd)) {
		if (!pipe_waits(fd, flags)) {
			errno = EAGAIN;
			return -1;
		}
		if (!diw_stream_await(fd, POLLIN, UINT64_MAX, true))
			return -1;
	}
	return 1;
}

/* Moves bytes as the kernel does: until all N have left, or the pipe is empty. */
static ssize_t pipe_to_stream(int from, int to, size_t n, unsigned flags)
{
	uint64_t deadline = 0;
	size_t done = 0;
	ssize_t rc;

	if (await_input(from, flags) < 0)
		return -1;
	while (done < n) {
		rc = send_some(from, to, n - done, flags & SPLICE_F_MORE ? MSG_MORE : 0);
		if (rc > 0) {
			done += (size_t)rc;
			continue;
		}
		if (rc == 0 || errno != EAGAIN || (done && !has_input(from)) || diw_stream_is_nonblocking(to, 0))
			break;
		if (!has_input(from)) {      /* another thread took it first */
			rc = await_input(from, flags);
			if (rc < 0)
				break;
			continue;
		}
		if (!deadline)
			deadline = diw_stream_deadline(to);
		if (!diw_stream_await(to, POLLOUT, deadline, !done))
			break;
	}
	return done || rc > 0 ? (ssize_t)done : rc;
}

/* ---- The calls ---- */

/* Whether FD may get frames; since Linux 6.5, it may be a datagram socket, too. */
static bool gets_frames(int fd)
{
	uint64_t cookie;
	struct diw_sock tmp;
	struct diw_sock_stream *st;
	int bytes;

	if (diw_sock_get(fd, &tmp))
		return true;
	st = diw_stream_slot(fd, &cookie);
	return st && diw_stream_next(fd, &bytes);
}

DIW_API ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t n, unsigned flags)
{
	struct diw_sock tmp;
	bool from_socket = diw_sock_get(from, &tmp) || diw_stream_get(from);

	diw_sock_get(to, &tmp);
	/* Errors that the kernel reports before it reads a byte. */
	if (!n || from_at || to_at || flags & ~(SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT))
		return real.splice(from, from_at, to, to_at, n, flags);
	if (diw_stream_get(to) && is_pipe(from, O_RDONLY) && diw_stream_sends_frames(to))
		return pipe_to_stream(from, to, n, flags);
	if (from_socket && is_pipe(to, O_WRONLY) && gets_frames(from))
		return socket_to_pipe(from, to, n, flags);
	return real.splice(from, from_at, to, to_at, n, flags);
}

DIW_API ssize_t sendfile(int to, int from, off_t *at, size_t n)
{
	struct diw_sock tmp;

	diw_sock_get(to, &tmp);
	if (diw_stream_sends_frames(to))
		return send_file(to, from, at, n);
	if (!at && n && (diw_sock_get(from, &tmp) || diw_stream_get(from)) && is_pipe(to, O_WRONLY) &&
	    gets_frames(from))
		return socket_to_pipe(from, to, n, 0);
	return real.sendfile(to, from, at, n);
}

DIW_API ssize_t sendfile64(int to, int from, off64_t *at, size_t n) __THROW DIW_ALIAS(sendfile);
