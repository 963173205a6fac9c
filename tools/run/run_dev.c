/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw run --dev: files by which programs recognise RDMA devices. The program gets them in a mount namespace, so other
 * processes do not see them. For an ordinary user it is in a user namespace that keeps the user's id.
 *
 * A directory in which the files cannot be created, such as /dev of a host without RDMA, is covered by another one with
 * the same contents.
 */
#include "tools/run/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tool.h"

#define NODES "/dev/infiniband"
#define MAX_DEVS 64

/* ---- Namespaces ---- */

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

static bool same_user(uid_t uid, gid_t gid)
{
	char users[64], groups[64];

	snprintf(users, sizeof users, "%u %u 1\n", uid, uid);
	snprintf(groups, sizeof groups, "%u %u 1\n", gid, gid);
	return write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/gid_map", groups) &&
	       write_file("/proc/self/uid_map", users);
}

static bool enter_namespace(void)
{
	const uid_t uid = geteuid();
	const gid_t gid = getegid();

	return (unshare(CLONE_NEWNS) == 0 || (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && same_user(uid, gid))) &&
	       mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) == 0;
}

/* ---- Directories ---- */

static bool make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* DIR/NAME becomes what NAME was in the directory FROM, which DIR covers. A name that is gone meanwhile is skipped. */
static bool keep_name(int from, const char *dir, const char *name)
{
	char old[PATH_MAX], new[PATH_MAX], target[PATH_MAX];
	struct stat st;
	ssize_t len;

	snprintf(old, sizeof old, "/proc/self/fd/%d/%s", from, name);
	snprintf(new, sizeof new, "%s/%s", dir, name);
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT;
	if (S_ISLNK(st.st_mode)) {
		len = readlinkat(from, name, target, sizeof target - 1);
		target[len < 0 ? 0 : len] = '\0';
		return len >= 0 && symlink(target, new) == 0;
	}
	if (S_ISDIR(st.st_mode) ? mkdir(new, 0755) : !make_file(new))
		return false;
	return mount(old, new, NULL, MS_BIND | MS_REC, NULL) == 0 || errno == ENOENT;
}

static bool empty_dir(const char *dir)
{
	return mount("diw", dir, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64m") == 0;
}

static bool cover(const char *dir)
{
	int from = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = from < 0 ? NULL : fdopendir(from);
	const struct dirent *e;
	bool good = d && empty_dir(dir);
	int errnum;

	while (good && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !keep_name(from, dir, e->d_name))
			good = false;
	errnum = errno;
	if (d)
		closedir(d);
	errno = errnum;
	return good;
}

/* Makes PATH, an empty directory in PARENT. COVERED: PARENT is already a directory of ours. */
static bool make_place(const char *parent, const char *path, bool *covered)
{
	if (access(path, F_OK) == 0)
		return empty_dir(path);
	if (!*covered && !cover(parent))
		return false;
	*covered = true;
	return mkdir(path, 0755) == 0;
}

static bool make_places(bool sysfs)
{
	bool dev = false, class = false;

	return make_place("/dev", NODES, &dev) &&
	       (!sysfs || (make_place("/sys/class", RUN_CLASS, &class) && make_place("/sys/class", RUN_VERBS, &class) &&
			   run_put_verbs_abi()));
}

/* ---- Contents ---- */

static bool make_node(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, NODES "/%s", name);
	return make_file(path) && mount("/dev/null", path, NULL, MS_BIND, NULL) == 0;
}

static bool have_nodes(const struct diw_dev_info *devs, int n)
{
	char path[PATH_MAX];

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, NODES "/%.*s", (int)sizeof devs[i].name - 1, devs[i].name);
		if (access(path, R_OK | W_OK))
			return false;
	}
	return true;
}

static bool says(const char *path, const char *line)
{
	char text[32] = "";
	FILE *f = fopen(path, "re");
	bool same = f && fgets(text, sizeof text, f) && strncmp(text, line, strlen(line)) == 0;

	if (f)
		fclose(f);
	return same;
}

static bool have_classes(const struct diw_dev_info *devs, int n, bool rnic)
{
	char path[PATH_MAX];

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, RUN_CLASS "/%.*s/node_type", (int)sizeof devs[i].name - 1, devs[i].name);
		if (!says(path, rnic ? RUN_NODE_RNIC : RUN_NODE_CA))
			return false;
	}
	return true;
}

/* The devices that libibverbs lists: interfaces with an address. */
static int list_devs(struct diw_dev_info devs[MAX_DEVS])
{
	int all = diw_dev_list(devs, MAX_DEVS), n = 0;

	for (int i = 0; i < all && i < MAX_DEVS; i++)
		if (devs[i].naddrs)
			devs[n++] = devs[i];
	return all < 0 ? all : n;
}

int run_make_dev(bool rnic)
{
	static struct diw_dev_info devs[MAX_DEVS];
	int n = list_devs(devs);
	bool sysfs = access("/sys/class", F_OK) == 0, nodes;

	if (n <= 0)
		return tool_failed("--dev: no device: %s", strerror(n ? -n : ENODEV));
	nodes = have_nodes(devs, n);
	if (nodes && (!sysfs || have_classes(devs, n, rnic)))
		return TOOL_OK;
	if (!enter_namespace())
		return nodes ? TOOL_OK :
		       tool_failed("--dev: no mount namespace: %s. It takes user namespaces, or CAP_SYS_ADMIN; without "
				   "them, give the program files " NODES "/diw_INTERFACE that it may read and write",
				   strerror(errno));
	if (!make_places(sysfs))
		return tool_failed("--dev: %s: %s", NODES, strerror(errno));
	for (int i = 0; i < n; i++)
		if (!make_node(devs[i].name) || (sysfs && !run_put_device(&devs[i], rnic)))
			return tool_failed("--dev: %s: %s", devs[i].name, strerror(errno));
	return TOOL_OK;
}
