/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/crc.h"

#ifdef HAVE_ISAL

#include <isa-l/crc.h>

uint32_t diw_crc32(uint32_t crc, const void *buf, size_t len)
{
	return crc32_gzip_refl(crc, buf, len);
}

const char *diw_crc_engine(void)
{
	return "isal";
}

#else

#include <zlib.h>

uint32_t diw_crc32(uint32_t crc, const void *buf, size_t len)
{
	return (uint32_t)crc32_z(crc, buf, len);
}

const char *diw_crc_engine(void)
{
	return "zlib";
}

#endif
