/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds and reads the configuration file. */
#include "sockets_preload/shm/conffile.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#ifdef HAVE_INIH
#include <ini.h>

typedef bool set_fn(const char *name, const char *value);

/* Returns 0 for an error, of which inih reports the line. */
static int from_file(void *user, const char *section, const char *name, const char *value)
{
	set_fn *const *set = user;

	return strcmp(section, "sockets") != 0 || (*set)(name, value);
}

void diw_conffile_read(set_fn *set)
{
	const char *named = getenv("DIWARP_CONFIG"), *home = getenv("HOME");
	char path[PATH_MAX];
	FILE *f;
	int line;

	snprintf(path, sizeof path, "%s", named ? named : "");
	if (!named && home)
		snprintf(path, sizeof path, "%s/.config/diwarp.ini", home);
	if (!named && (!home || access(path, F_OK) < 0))
		snprintf(path, sizeof path, "/etc/diwarp.ini");
	if (!*path || (!named && access(path, F_OK) < 0))
		return;
	f = fopen(path, "re");
	line = f ? ini_parse_file(f, from_file, &set) : 0;
	if (!f || ferror(f))                 /* a directory can be opened, but not read */
		diw_log(named ? DIW_LOG_TELL : DIW_LOG_ERROR, "%s: cannot be read: %s", path, strerror(errno));
	else if (line)
		diw_log(DIW_LOG_WARN, "%s: line %d cannot be parsed, or names no setting", path, line);
	if (f)
		fclose(f);
}
#else
void diw_conffile_read(bool (*set)(const char *name, const char *value))
{
	(void)set;
	if (getenv("DIWARP_CONFIG"))
		diw_log(DIW_LOG_WARN, "DIWARP_CONFIG: this build cannot read configuration files");
}
#endif
