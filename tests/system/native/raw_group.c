/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw_group RECEIVERS BYTES: what bare sockets do of the work of `diw cp --group` over lo. One process sends datagrams
 * of 64 KiB to a multicast group; in each receiver the kernel copies a datagram out of the socket, its CRC-32 is
 * checked, and its payload is copied to its place. At most four quarters of 512 KiB are on the way. tools/goals runs
 * it.
 */
#include <arpa/inet.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/wire.h"

#define HDR 32u
#define BLOCK 65471u
#define QUARTER (8u * BLOCK)
#define QUARTERS 4u                  /* on the way */
#define MOST 16

static uint64_t bytes;
static struct shared { sem_t ready, done, came[MOST]; } *shared;

static void *memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		exit(1);
	return p;
}

static struct sockaddr_in the_group(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(4987),
		.sin_addr.s_addr = htonl(0xef010163) };
}

static int receiver_socket(void)
{
	const int size = 4 << 20, on = 1;
	const struct sockaddr_in a = the_group();
	const struct ip_mreqn m = { .imr_multiaddr = a.sin_addr, .imr_address.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	if (bind(fd, (const struct sockaddr *)&a, sizeof a) ||
	    setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m))
		exit(1);
	return fd;
}

static void receiver_run(int i)
{
	uint8_t *mem = memory(bytes), *d = malloc(HDR + BLOCK + 4);
	uint64_t got = 0, told = 0, at;
	int fd = receiver_socket();
	ssize_t n;

	sem_post(&shared->ready);
	while (got < bytes && (n = recv(fd, d, HDR + BLOCK + 4, 0)) > (ssize_t)HDR + 4) {
		at = diw_get64(d);
		if (diw_crc32(0, d, (size_t)n - 4) != diw_get32le(d + n - 4) || at + (uint64_t)n - HDR - 4 > bytes)
			exit(1);
		memcpy(mem + at, d + HDR, (size_t)n - HDR - 4);
		got += (uint64_t)n - HDR - 4;
		for (; got >= told + QUARTER || (got == bytes && told < bytes); told += QUARTER)
			sem_post(&shared->came[i]);
	}
	sem_post(&shared->done);
	_exit(got != bytes);
}

static void block_send(int fd, const uint8_t *mem, uint64_t at)
{
	uint64_t len = bytes - at < BLOCK ? bytes - at : BLOCK;
	uint8_t hdr[HDR] = { 0 }, crc[4];
	struct iovec iov[3] = { { hdr, HDR }, { (void *)(uintptr_t)(mem + at), len }, { crc, 4 } };
	struct sockaddr_in a = the_group();
	struct msghdr m = { .msg_name = &a, .msg_namelen = sizeof a, .msg_iov = iov, .msg_iovlen = 3 };

	diw_put64(hdr, at);
	diw_put32le(crc, diw_crc32(diw_crc32(0, hdr, HDR), mem + at, len));
	if (sendmsg(fd, &m, 0) < 0)
		exit(1);
}

static void sender_run(int n, const uint8_t *mem)
{
	const struct ip_mreqn out = { .imr_address.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	uint64_t quarter = 0;

	setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out);
	for (uint64_t at = 0; at < bytes; at += BLOCK) {
		if (at / QUARTER > quarter && ++quarter >= QUARTERS)
			for (int i = 0; i < n; i++)
				sem_wait(&shared->came[i]);
		block_send(fd, mem, at);
	}
	for (int i = 0; i < n; i++)
		sem_wait(&shared->done);
}

int main(int argc, char **argv)
{
	int n = argc == 3 ? atoi(argv[1]) : 0, status, bad = 0;
	uint64_t began;
	uint8_t *mem;
	double sec;

	bytes = n > 0 && n <= MOST ? strtoull(argv[2], NULL, 0) : 0;
	if (!bytes) {
		fprintf(stderr, "usage: raw_group RECEIVERS BYTES\n");
		return 2;
	}
	shared = memory(sizeof *shared);
	sem_init(&shared->ready, 1, 0);
	sem_init(&shared->done, 1, 0);
	for (int i = 0; i < n; i++)
		sem_init(&shared->came[i], 1, 0);
	for (int i = 0; i < n; i++)
		if (fork() == 0)
			receiver_run(i);
	mem = memory(bytes);
	for (int i = 0; i < n; i++)
		sem_wait(&shared->ready);
	began = diw_clock_ns();
	sender_run(n, mem);
	sec = (double)(diw_clock_ns() - began) / 1e9;
	for (int i = 0; i < n; i++)
		bad += wait(&status) < 0 || status;
	printf("{\"receivers\": %d, \"seconds\": %.6f, \"GBps_aggregate\": %.4f}\n", n, sec,
	       (double)bytes * n / sec / 1e9);
	return bad > 0;
}
