/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ISA-L's two CRCs for base/crc.c, from a copy of the library in a namespace of the interposer. If the interposer were
 * linked with ISA-L, the library's names would be in the program's global scope, and replace the program's own.
 */
#ifdef HAVE_ISAL

#include <dlfcn.h>
#include <isa-l/crc.h>

#include "sockets_preload/preload.h"

#define TEXT(name) #name
#define TEXT_OF(macro) TEXT(macro)

static __typeof__(&crc32_iscsi) isal_iscsi;
static __typeof__(&crc32_gzip_refl) isal_gzip_refl;

__attribute__((visibility("hidden"))) unsigned crc32_iscsi(unsigned char *buf, int len, unsigned crc)
{
	return isal_iscsi(buf, len, crc);
}

__attribute__((visibility("hidden"))) uint32_t crc32_gzip_refl(uint32_t crc, const unsigned char *buf, uint64_t len)
{
	return isal_gzip_refl(crc, buf, len);
}

bool diw_isal_open(void)
{
	void *lib = dlopen(TEXT_OF(ISAL_SONAME), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!lib) {
		diw_log(DIW_LOG_WARN, "nothing is framed: %s", dlerror());
		return false;
	}
	isal_iscsi = (__typeof__(isal_iscsi))dlsym(lib, "crc32_iscsi");
	isal_gzip_refl = (__typeof__(isal_gzip_refl))dlsym(lib, "crc32_gzip_refl");
	return isal_iscsi && isal_gzip_refl;
}

#else

#include "sockets_preload/preload.h"

bool diw_isal_open(void)
{
	return true;
}

#endif
