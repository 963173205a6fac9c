/* SPDX-License-Identifier: BSD-2-Clause */
/* Preloaded after the interposer: an allocator. Its first call reads settings from the kernel while it holds the
 * allocator's lock, as jemalloc does. It never frees memory. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define ARENA (1ul << 30)
#define ALIGN 16u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *arena;
static size_t used;

static void allocator_begin(void)
{
	char text[16];
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);

	(void)!readlink("/etc/malloc.conf", text, sizeof text);
	(void)!syscall(SYS_read, fd, text, sizeof text);
	syscall(SYS_close, fd);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)!read(fd, text, sizeof text);
	close(fd);
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void *allocate(size_t align, size_t n)
{
	uint8_t *p = NULL;

	pthread_mutex_lock(&lock);
	if (!arena)
		allocator_begin();
	used = (used + align - 1) / align * align + ALIGN;      /* the length is in front */
	used = (used + align - 1) / align * align;
	if (arena != MAP_FAILED && n < ARENA - used) {
		p = arena + used;
		memcpy(p - sizeof n, &n, sizeof n);
		used += n;
	}
	pthread_mutex_unlock(&lock);
	if (!p)
		errno = ENOMEM;
	return p;
}

API void *malloc(size_t n) { return allocate(ALIGN, n); }
API void free(void *p) { (void)p; }
API void *calloc(size_t n, size_t size)
{
	return size && n > SIZE_MAX / size ? NULL : allocate(ALIGN, n * size);  /* fresh pages are zero */
}
API void *memalign(size_t align, size_t n) { return allocate(align < ALIGN ? ALIGN : align, n); }
API void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }
API int posix_memalign(void **p, size_t align, size_t n)
{
	*p = memalign(align, n);
	return *p ? 0 : ENOMEM;
}
API void *realloc(void *old, size_t n)
{
	void *p = allocate(ALIGN, n);
	size_t had;

	if (!p || !old)
		return p;
	memcpy(&had, (uint8_t *)old - sizeof had, sizeof had);
	return memcpy(p, old, had < n ? had : n);
}

/* Libraries allocate in their constructors, as libstdc++ does; these run before the constructors of the libraries in
 * front of them. */
__attribute__((constructor)) static void allocator_first(void)
{
	static void *volatile first;

	first = malloc(1);
	(void)first;
}
