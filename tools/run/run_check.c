/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw run --check: the imports of a program, or of a shared object that a program loads (a module, a provider). The
 * program's own dynamic loader lists its libraries, so cache, runtime paths and environment have the effect that they
 * will have when it runs. Their symbol tables are read here.
 */
#include "tools/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/tool.h"

#define OURS "libibverbs.so.1"
#define OURS_CM "librdmacm.so.1"
#define MAX_OBJECTS 512
#define MAX_NAMES 2048
#define MAX_VERSIONS 512             /* of an object */
#define VERSION_INDEX 0x7fff         /* without the bit for hidden symbols */

struct object { char *soname, *path; };

struct check {
	struct object objects[MAX_OBJECTS];
	int nobjects;
	char *exports[MAX_NAMES];    /* NAME@VERSION in our libraries */
	int nexports;
	int imports, cm_imports, missing, unsupported;
	const char *importer;        /* the object that is being read */
};

/* Exported functions that always return EOPNOTSUPP. */
static const char *const unsupported[] = {
	"_ibv_query_comp_cntr_caps", "ibv_alloc_dmah", "ibv_create_comp_cntr", "ibv_dm_export_dmabuf_fd",
	"ibv_export_buf_dmabuf_fd", "ibv_import_device", "ibv_import_dm", "ibv_import_mr", "ibv_import_pd",
	"ibv_query_ece", "ibv_reg_dmabuf_mr", "ibv_resolve_eth_l2_from_gid", "ibv_set_ece",
};

/* ---- Symbol tables ---- */

struct versions { const char *name[MAX_VERSIONS], *file[MAX_VERSIONS]; };

/* SYM is undefined and required from FILE; or it is defined (FILE NULL). */
typedef void symbol_fn(struct check *c, const char *name, const char *version, const char *file);

static Elf_Scn *section(Elf *elf, GElf_Word type, GElf_Shdr *shdr)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, shdr) && shdr->sh_type == type)
			return scn;
	return NULL;
}

static void set_version(Elf *elf, size_t strings, struct versions *v, unsigned i, size_t name, const char *file)
{
	if (i < MAX_VERSIONS) {
		v->name[i] = elf_strptr(elf, strings, name);
		v->file[i] = file;
	}
}

static void read_needed(Elf *elf, struct versions *v)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = section(elf, SHT_GNU_verneed, &shdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	GElf_Vernaux aux;
	GElf_Verneed need;

	for (int at = 0; data && gelf_getverneed(data, at, &need); at += (int)need.vn_next) {
		const char *file = elf_strptr(elf, shdr.sh_link, need.vn_file);
		int a = at + (int)need.vn_aux;

		for (int n = need.vn_cnt; n > 0 && gelf_getvernaux(data, a, &aux); n--, a += (int)aux.vna_next)
			set_version(elf, shdr.sh_link, v, aux.vna_other & VERSION_INDEX, aux.vna_name, file);
		if (!need.vn_next)
			break;
	}
}

static void read_defined(Elf *elf, struct versions *v)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = section(elf, SHT_GNU_verdef, &shdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	GElf_Verdaux aux;
	GElf_Verdef def;

	for (int at = 0; data && gelf_getverdef(data, at, &def); at += (int)def.vd_next) {
		if (gelf_getverdaux(data, at + (int)def.vd_aux, &aux))
			set_version(elf, shdr.sh_link, v, def.vd_ndx & VERSION_INDEX, aux.vda_name, NULL);
		if (!def.vd_next)
			break;
	}
}

static void each_symbol(struct check *c, Elf *elf, bool defined, symbol_fn *fn)
{
	struct versions v = { 0 };
	GElf_Shdr shdr, vshdr;
	Elf_Scn *scn = section(elf, SHT_DYNSYM, &shdr), *vscn = section(elf, SHT_GNU_versym, &vshdr);
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL, *vdata = vscn ? elf_getdata(vscn, NULL) : NULL;
	GElf_Versym versym;
	GElf_Sym sym;

	defined ? read_defined(elf, &v) : read_needed(elf, &v);
	for (int i = 1; data && gelf_getsym(data, i, &sym); i++) {
		const char *name = elf_strptr(elf, shdr.sh_link, sym.st_name);
		unsigned at = vdata && gelf_getversym(vdata, i, &versym) ? versym & VERSION_INDEX : 0;

		if (name && at > 0 && at < MAX_VERSIONS && v.name[at] && (sym.st_shndx != SHN_UNDEF) == defined)
			fn(c, name, v.name[at], v.file[at]);
	}
}

static int read_object(struct check *c, const char *path, bool defined, symbol_fn *fn)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf;

	if (fd < 0)
		return tool_failed("%s: %s", path, strerror(errno));
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF)
		each_symbol(c, elf, defined, fn);
	elf_end(elf);
	close(fd);
	return TOOL_OK;
}

/* ---- Exports and imports ---- */

static void add_export(struct check *c, const char *name, const char *version, const char *file)
{
	(void)file;
	if (c->nexports < MAX_NAMES && asprintf(&c->exports[c->nexports], "%s@%s", name, version) > 0)
		c->nexports++;
}

static bool is_exported(const struct check *c, const char *name)
{
	for (int i = 0; i < c->nexports; i++)
		if (strcmp(c->exports[i], name) == 0)
			return true;
	return false;
}

static void judge(struct check *c, const char *name, const char *version, const char *file)
{
	char full[256];

	if (!file || (strcmp(file, OURS) != 0 && strcmp(file, OURS_CM) != 0))
		return;
	strcmp(file, OURS) == 0 ? c->imports++ : c->cm_imports++;
	snprintf(full, sizeof full, "%s@%s", name, version);
	if (!is_exported(c, full)) {
		printf("missing      %s, which %s imports\n", full, c->importer);
		c->missing++;
	}
	for (size_t i = 0; i < TOOL_COUNT(unsupported); i++) {
		if (strcmp(unsupported[i], name) == 0) {
			printf("unsupported  %s, which %s imports, fails with EOPNOTSUPP\n", name, c->importer);
			c->unsupported++;
		}
	}
}

/* ---- The libraries ---- */

bool run_interpreter(const char *path, char out[PATH_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
	size_t n = 0, size;
	const char *image;
	bool found = false;
	GElf_Phdr ph;

	if (elf && elf_kind(elf) == ELF_K_ELF && elf_getphdrnum(elf, &n) == 0 && (image = elf_rawfile(elf, &size)))
		for (size_t i = 0; i < n && !found; i++)
			if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_INTERP && ph.p_offset < size &&
			    ph.p_filesz <= size - ph.p_offset) {
				snprintf(out, PATH_MAX, "%.*s", (int)ph.p_filesz, image + ph.p_offset);
				found = true;
			}
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return found;
}

static bool needs_libraries(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
	GElf_Shdr shdr;
	Elf_Scn *scn = elf && elf_kind(elf) == ELF_K_ELF ? section(elf, SHT_DYNAMIC, &shdr) : NULL;
	Elf_Data *data = scn ? elf_getdata(scn, NULL) : NULL;
	GElf_Dyn dyn;
	bool found = false;

	for (int i = 0; data && !found && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++)
		found = dyn.d_tag == DT_NEEDED;
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return found;
}

/* A shared object names no loader: the loader of this program is used. */
static bool loader_of(const char *path, char out[PATH_MAX])
{
	return run_interpreter(path, out) || (needs_libraries(path) && run_interpreter("/proc/self/exe", out));
}

/* "\tSONAME => PATH (0x...)" */
static void add_object(struct check *c, char *line)
{
	char *soname = line + strspn(line, " \t"), *arrow = strstr(line, " => "), *path, *end;

	if (!arrow || c->nobjects == MAX_OBJECTS)
		return;
	path = arrow + 4;
	end = strstr(path, " (0x");
	if (!end)                               /* not found: the loader reports that when the program runs */
		return;
	*arrow = *end = '\0';
	c->objects[c->nobjects++] = (struct object){ strdup(soname), strdup(path) };
}

static int list_objects(struct check *c, const char *path)
{
	char interp[PATH_MAX], *line = NULL;
	int fds[2], status = 0;
	size_t size = 0;
	FILE *f;
	pid_t pid;

	if (!loader_of(path, interp))
		return tool_failed("%s: not a dynamically linked program or shared object: it loads no libibverbs",
				   path);
	if (pipe(fds) < 0)
		return tool_failed("pipe: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl(interp, interp, "--list", path, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	f = fdopen(fds[0], "r");
	while (f && getline(&line, &size, f) > 0)
		add_object(c, line);
	free(line);
	if (f)
		fclose(f);
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		return tool_failed("%s --list %s failed", interp, path);
	return TOOL_OK;
}

/* ---- The whole check ---- */

static const struct object *object_find(const struct check *c, const char *soname)
{
	for (int i = 0; i < c->nobjects; i++)
		if (c->objects[i].soname && strcmp(c->objects[i].soname, soname) == 0)
			return &c->objects[i];
	return NULL;
}

static int conclude(const struct check *c, const char *path, const char *dir)
{
	const struct object *cm = object_find(c, OURS_CM);

	if (cm && strncmp(cm->path, dir, strlen(dir)) != 0)
		printf("not ours     %s: connections by rdma_cm do not reach diwarp\n", cm->path);
	if (!object_find(c, OURS))
		printf("%s is not linked with %s; one that it loads while it runs is not seen here\n", path, OURS);
	if (c->cm_imports)
		printf("%s: %d imports of %s\n", path, c->cm_imports, OURS_CM);
	printf("%s: %d imports of %s, %d missing, %d unsupported\n", path, c->imports, OURS, c->missing,
	       c->unsupported);
	return c->missing ? TOOL_FAILED : TOOL_OK;
}

int run_check(const char *path, const char *dir)
{
	static struct check c;
	char ours[PATH_MAX];
	int rc;

	elf_version(EV_CURRENT);
	snprintf(ours, sizeof ours, "%.*s/" OURS, PATH_MAX - 32, dir);
	rc = read_object(&c, ours, true, add_export);
	snprintf(ours, sizeof ours, "%.*s/" OURS_CM, PATH_MAX - 32, dir);
	if (rc == TOOL_OK && access(ours, F_OK) == 0)
		rc = read_object(&c, ours, true, add_export);
	if (rc == TOOL_OK)
		rc = list_objects(&c, path);
	c.importer = path;
	if (rc == TOOL_OK)
		rc = read_object(&c, path, false, judge);
	for (int i = 0; rc == TOOL_OK && i < c.nobjects; i++) {
		c.importer = c.objects[i].soname;
		rc = read_object(&c, c.objects[i].path, false, judge);
	}
	if (rc == TOOL_OK)
		rc = conclude(&c, path, dir);
	for (int i = 0; i < c.nobjects; i++) {
		free(c.objects[i].soname);
		free(c.objects[i].path);
	}
	while (c.nexports)
		free(c.exports[--c.nexports]);
	return rc;
}
