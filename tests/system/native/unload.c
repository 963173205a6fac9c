/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unload LIBRARY FUNCTIONS   opens and closes a library with dlopen(3). FUNCTIONS: native, verbs or cm. Devices are
 * opened, used and closed, or left open: their threads continue in the library, and the process ends regularly.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 1000
#define SETTLED 100                  /* rounds, after which no new file is opened */
#define EXITS 40
#define PS_TCP 0x0106                /* RDMA_PS_TCP */

static const char *path, *kind;
static int failed;

static void check(bool good, const char *what)
{
	printf("%sok - %s: %s\n", good ? "" : "not ", kind, what);
	fflush(stdout);
	failed |= !good;
}

static void *function(void *lib, const char *name)
{
	void *f = dlsym(lib, name);

	if (!f) {
		printf("not ok - %s\n", dlerror());
		exit(1);
	}
	return f;
}

/* Objects have types of verbs.h and of others; here they are pointers. */
static void *open_one(void *lib)
{
	void *one = NULL;

	if (strcmp(kind, "native") == 0) {
		int (*dev_open)(const char *, const void *, void **) = function(lib, "diw_dev_open");

		dev_open("diw_lo", NULL, &one);
	} else if (strcmp(kind, "verbs") == 0) {
		void **(*get)(int *) = function(lib, "ibv_get_device_list");
		void (*free_list)(void **) = function(lib, "ibv_free_device_list");
		void *(*open)(void *) = function(lib, "ibv_open_device");
		void **list = get(NULL);

		one = list && list[0] ? open(list[0]) : NULL;
		if (list)
			free_list(list);
	} else {
		void **(*get)(int *) = function(lib, "rdma_get_devices");
		void (*free_list)(void **) = function(lib, "rdma_free_devices");
		void **list = get(NULL);

		one = list ? list[0] : NULL;            /* it belongs to librdmacm, for ever */
		free_list(list);
	}
	return one;
}

/* Starts the threads of a device: a protection domain, an identifier that listens. NULL: it fails. */
static void *use_one(void *lib, void *one)
{
	void *use = NULL;

	if (strcmp(kind, "native") == 0) {
		int (*alloc)(void *, void **) = function(lib, "diw_pd_alloc");

		return alloc(one, &use) == 0 ? use : NULL;
	}
	if (strcmp(kind, "verbs") == 0) {
		void *(*alloc)(void *) = function(lib, "ibv_alloc_pd");

		return alloc(one);
	} else {
		int (*create)(void *, void **, void *, int) = function(lib, "rdma_create_id");
		int (*listen_on)(void *, int) = function(lib, "rdma_listen");

		return create(NULL, &use, NULL, PS_TCP) == 0 && listen_on(use, 1) == 0 ? use : NULL;
	}
}

static bool unuse_one(void *lib, void *use)
{
	const char *name = strcmp(kind, "native") == 0 ? "diw_pd_free" :
			   strcmp(kind, "verbs") == 0 ? "ibv_dealloc_pd" : "rdma_destroy_id";
	int (*end)(void *) = function(lib, name);

	return use && end(use) == 0;
}

static bool close_one(void *lib, void *one)
{
	int (*dev_close)(void *);

	if (strcmp(kind, "cm") == 0)
		return true;
	dev_close = function(lib, strcmp(kind, "native") == 0 ? "diw_dev_close" : "ibv_close_device");
	return dev_close(one) == 0;
}

static void *load(void)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		printf("not ok - %s\n", dlerror());
		exit(1);
	}
	return lib;
}

static int count(const char *dir)
{
	DIR *d = opendir(dir);
	int n = -2;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static long pages(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long n = 0;

	if (!f || fscanf(f, "%ld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

/* Wakes every thread that sleeps on an eventfd of this process. */
static void rouse_all(void)
{
	const uint64_t one = 1;

	for (int fd = 3; fd < 256; fd++) {
		char link[64], to[64] = "";

		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		if (readlink(link, to, sizeof to - 1) > 0 && strstr(to, "eventfd"))
			(void)!write(fd, &one, sizeof one);
	}
}

/* Whether a process that calls the function exits with 0. */
static bool survives(void (*does)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(60);
		does();
		exit(0);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void leave_open(void)
{
	void *lib = load(), *one = open_one(lib);

	if (!one || !use_one(lib, one) || count("/proc/self/task") == 1)
		exit(1);
	usleep(10000);
	dlclose(lib);
	for (int i = 0; i < 10; i++) {
		rouse_all();
		usleep(1000);
	}
}

/* A joined thread may still be visible for a moment. */
static bool alone(void)
{
	for (int ms = 0; ms < 30000 && count("/proc/self/task") != 1; ms++)
		usleep(1000);
	return count("/proc/self/task") == 1;
}

/* The C library allocates an arena or a stack when more threads exist than ever before, which may be in any round. A
 * leak in each round is more memory both in the first half of the rounds and in the second. */
static void rounds(void)
{
	int files = 0;
	long before = 0, half = 0;

	for (int i = 0; i < ROUNDS; i++) {
		void *lib = load(), *one = open_one(lib);

		if (!one || !unuse_one(lib, use_one(lib, one)) || !alone() || !close_one(lib, one))
			exit(1);
		dlclose(lib);
		if (i == SETTLED) {
			before = pages();
			files = count("/proc/self/fd");
		}
		if (i == (SETTLED + ROUNDS) / 2)
			half = pages();
	}
	if (count("/proc/self/fd") != files)
		exit(3);
	if (half > before && pages() > half)
		exit(4);
}

static void *busy(void *lib)
{
	for (;;) {
		void *one = open_one(lib), *use = one ? use_one(lib, one) : NULL;

		if (use)
			unuse_one(lib, use);
		if (one)
			close_one(lib, one);
	}
	return NULL;
}

static void exit_busy(void)
{
	pthread_t thread;
	void *lib = load();

	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, busy, lib);
	usleep(4000);
}

int main(int argc, char **argv)
{
	int good = 0;

	if (argc != 3)
		return 2;
	path = argv[1];
	kind = argv[2];
	check(survives(leave_open), "a device's threads outlive the library's last dlclose()");
	check(survives(rounds), "1000 rounds leave no thread, file or memory behind");
	for (int i = 0; i < EXITS; i++)
		good += survives(exit_busy);
	check(good == EXITS, "a process ends well while threads open and close devices");
	return failed;
}
