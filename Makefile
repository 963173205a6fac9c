# SPDX-License-Identifier: BSD-2-Clause
# diwarp: one non-recursive Makefile. `make help` lists the targets and settings.
#: MODE=release|debug|asan|tsan  how to compile; every mode but release has a directory of its own
#: BUILD=DIR                     where everything goes (build, or build/MODE)
#: PREFIX=/usr/local DESTDIR=    where install puts it
#: V=1                           print the whole commands
#: CI=1                          warnings are errors
VERSION = 0.1.0
MODE ?= release
BUILD ?= build$(if $(filter-out release,$(MODE)),/$(MODE))
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
ifeq ($(origin CC),default)
CC = gcc
endif
PKG_CONFIG ?= pkg-config

CFLAGS_release = -O2 -g
CFLAGS_debug = -O0 -g3
CFLAGS_asan = -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan = -O1 -g -fsanitize=thread
# A sanitizer's symbols come from the program.
DEFS_release = -Wl,-z,defs
DEFS_debug = -Wl,-z,defs
$(if $(CFLAGS_$(MODE)),,$(error MODE=$(MODE): choose release, debug, asan or tsan))

# ISA-L computes the CRC-32 nine times as fast as zlib, but zlib is enough to build and run. ISAL= builds without it.
ISAL := $(shell $(PKG_CONFIG) --exists libisal 2>/dev/null && echo 1)
# Trace points (docs/tracing.md), if systemtap-sdt-dev is there. SDT= builds without them.
SDT := $(shell $(CC) -E -include sys/sdt.h -x c /dev/null >/dev/null 2>&1 && echo 1)
# io_uring is a choice at run time, DIWARP_LLP=uring. URING= builds without it.
URING := $(shell $(PKG_CONFIG) --exists 'liburing >= 2.3' 2>/dev/null && echo 1)
# libibverbs.so.1 over the library (verbs/of), where its headers are. IBV= builds without it.
IBV := $(shell $(CC) -E -include infiniband/verbs.h -x c /dev/null >/dev/null 2>&1 && echo 1)
# A provider of libfabric over the library (mpi_glue), where the headers for providers are. FI= builds without it.
FI := $(shell $(CC) -E -include rdma/providers/fi_prov.h -x c /dev/null >/dev/null 2>&1 && echo 1)
# The interposer's configuration file (docs/sockets.md), by a static libinih. INIH= builds without it: the environment
# alone.
INIH := $(if $(wildcard $(shell $(CC) -print-file-name=libinih.a)),1)
WARN = -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes $(if $(CI),-Werror)
ISAL_SONAME := $(if $(ISAL),$(shell readlink -f "`$(CC) -print-file-name=libisal.so`" | \
	sed 's/.*\///; s/\(\.so\.[0-9]*\).*/\1/'))
DEFINES = -I. -D_GNU_SOURCE $(if $(ISAL),-DHAVE_ISAL -DISAL_SONAME=$(ISAL_SONAME)) \
	$(if $(SDT),-DHAVE_SDT) $(if $(URING),-DHAVE_URING) \
	$(if $(INIH),-DHAVE_INIH) $(if $(IBV),-DHAVE_IBV)
CPPFLAGS_all = $(DEFINES) -DDIW_VERSION='"$(VERSION)"' $(CPPFLAGS)
CFLAGS_all = -std=gnu11 $(CFLAGS_$(MODE)) $(WARN) -fPIC -fvisibility=hidden -pthread $(CFLAGS)
LIBS = $(if $(ISAL),-lisal) $(if $(URING),-luring) -lz -pthread
TOOL_LIBS = -lpcap -lcjson -lcrypto -lelf -lm
CHECK_LIBS = $(shell $(PKG_CONFIG) --libs check)

objs = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard $(1)))
LIB_OBJ := $(call objs,base/*.c wire/*.c llp/*.c mpa/*.c ddp/*.c rdmap/*.c verbs/engine/*.c verbs/cm/*.c verbs/*.c)
TOOL_OBJ := $(call objs,tools/*.c $(foreach d,cp dump perf run stat,tools/$(d)/*.c))
LIB_A = $(BUILD)/lib/libdiwarp.a
LIB_SO = $(BUILD)/lib/libdiwarp.so
DIW = $(BUILD)/bin/diw
# A library that a program may have without the others brings a logger of its own, for its state is a level.
OF_OBJ := $(if $(IBV),$(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard verbs/of/*.c) base/log.c base/path.c))
OF_SO = $(BUILD)/lib/diwarp/libibverbs.so.1
OF_BASE := $(if $(IBV),$(patsubst %,$(BUILD)/obj/base/%.o,eventfd ident nocancel))
# librdmacm.so.1 beside it (verbs/cma), where librdmacm's headers are. CMA= builds without it.
CMA := $(if $(IBV),$(shell $(CC) -E -include rdma/rdma_verbs.h -x c /dev/null >/dev/null 2>&1 && echo 1))
CMA_OBJ := $(if $(CMA),$(call objs,verbs/cma/*.c))
CMA_BASE := $(if $(CMA),$(patsubst %,$(BUILD)/obj/base/%.o,addr eventfd log nocancel path))
# What the libraries of ABIs have in common (verbs/host), and sockets over queue pairs: parts of each library that uses
# them.
HOST_OBJ := $(call objs,verbs/host/*.c)
HOST_A = $(BUILD)/obj/verbs/host.a
RS_OBJ := $(call objs,verbs/rs/*.c)
CMA_SO = $(BUILD)/lib/diwarp/librdmacm.so.1
FI_OBJ := $(call objs,mpi_glue/*.c)
FI_BASE := $(patsubst %,$(BUILD)/obj/base/%.o,addr eventfd log nocancel path pool)
FI_SO = $(BUILD)/lib/diwarp/fi/libdiwarp-fi.so
# The parts of it that know no libfabric, for their tests.
FI_PURE_OBJ := $(patsubst %,$(BUILD)/obj/mpi_glue/%.o,match msg_hdr greeting atomic_op)
# The socket interposer brings what it needs of the library with it, and exports nothing but the C library's calls.
SOCK_OBJ := $(call objs,sockets_preload/*.c sockets_preload/dgram/*.c sockets_preload/stream/*.c) \
	$(patsubst %.c,$(BUILD)/obj/%.o,$(patsubst %,base/%.c,addr crc log nocancel path siphash) \
	$(wildcard wire/*.c) $(patsubst %,llp/%.c,capture pcapng impair impair_line impair_spec))
# What its processes share in memory, which diw and tests read, too.
SHM_OBJ := $(call objs,sockets_preload/shm/*.c)
SHM_A = $(BUILD)/obj/sockets_preload/shm.a
SOCK_SO = $(BUILD)/lib/diwarp/libdiwarp_sockets.so
# Names that only providers use are in a version whose number every release of rdma-core may change: the installed
# one's.
OF_PRIVATE := $(if $(IBV),$(or $(shell grep -ao 'IBVERBS_PRIVATE_[0-9]*' \
	"`$(CC) -print-file-name=libibverbs.so.1`" 2>/dev/null | head -n 1 | tr -dc 0-9),34))
# ... and each number that rdma-core has had since release 44, for programs and providers that were built with another
# one.
OF_PRIVATES := $(sort $(OF_PRIVATE) 34 57 59 64 65)
of_at = $(if $(filter $(OF_PRIVATE),$(1)),@@,@)
# A directory of Check suites is one program (two of them share the in-memory network). In the folders of the system
# tests each C file is a program; all of these are built in BUILD/tests/system, so no two have one name.
SUITES := $(foreach d,unit wire sim,$(if $(wildcard tests/$(d)/*.c),$(d)))
COMMON_wire = tests/net/*.c
COMMON_sim = tests/net/*.c
SYSTEM := native sockets clients tools rsockets $(if $(IBV),ibverbs) $(if $(CMA),rdmacm) $(if $(FI),mpi)
system = $(patsubst tests/system/$(1)/%.c,$(BUILD)/tests/system/%,$(wildcard tests/system/$(1)/*.c))
TESTS = $(SUITES:%=$(BUILD)/tests/%) $(foreach d,$(SYSTEM),$(call system,$(d))) \
	$(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/preload/*.c))

Q = $(if $(V),,@)
SILENT := $(findstring s,$(firstword -$(MAKEFLAGS)))
say = $(if $(V),,@$(if $(SILENT),,printf '%-5s %s\n' $(1) $(2);))

ABI_SO := $(if $(IBV),$(OF_SO)) $(if $(CMA),$(CMA_SO)) $(if $(FI),$(FI_SO))
all: $(LIB_A) $(LIB_SO) $(DIW) $(SOCK_SO) $(ABI_SO)  ## build the library and diw (the default)

# Whatever changes the compiler's command line compiles everything again.
FLAGS = $(CC) $(CPPFLAGS_all) $(CFLAGS_all) $(LDFLAGS) $(LIBS) $(OF_PRIVATES)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(FLAGS))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS))' > $@

# The libraries' cancellation points become those of base/nocancel.c, which are none.
OBJCOPY ?= objcopy
NOCANCEL = $(BUILD)/obj/base/nocancel.syms
$(NOCANCEL): base/nocancel.c
	@mkdir -p $(@D)
	$(Q)sed -n 's/^TWIN[A-Z_]*([^,]*, \([^,]*\),.*/\1 diw_nocancel_\1/p' $< > $@
uncancelled = $(filter-out base/nocancel.c,$(filter \
	base/% wire/% llp/% mpa/% ddp/% rdmap/% verbs/% sockets_preload/shm/% mpi_glue/%,$(1)))

$(BUILD)/obj/%.o: %.c $(BUILD)/flags $(NOCANCEL)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CPPFLAGS_all) $(CFLAGS_all) -MMD -MP -c $< -o $@ \
		$(if $(call uncancelled,$<),&& $(OBJCOPY) --redefine-syms=$(NOCANCEL) $@)

$(LIB_A): $(LIB_OBJ)
$(SHM_A): $(SHM_OBJ)
$(HOST_A): $(HOST_OBJ)
$(LIB_A) $(SHM_A) $(HOST_A):
	@mkdir -p $(@D)
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $^

# Their threads sleep in them, and handlers of fork(), threads' keys and exit() are theirs: dlclose(3) does not unmap
# them.
SHARED = -shared -Wl,-z,nodelete
# pthread_cancel(3) of glibc loads this library, and aborts a program that cannot open files any more.
UNWINDER = -Wl,--push-state,--no-as-needed -lgcc_s -Wl,--pop-state

$(LIB_SO): $(LIB_OBJ) verbs/libdiwarp.map
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CFLAGS_all) $(SHARED) -Wl,-soname,libdiwarp.so.0 \
		-Wl,--version-script,verbs/libdiwarp.map \
		$(DEFS_$(MODE)) -o $@.0 $(LIB_OBJ) $(LDFLAGS) $(LIBS) $(UNWINDER)
	$(Q)ln -sf libdiwarp.so.0 $@

$(DIW): $(TOOL_OBJ) $(SHM_A) $(LIB_A)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CFLAGS_all) -o $@ $^ $(LDFLAGS) $(LIBS) $(TOOL_LIBS) $(if $(INIH),-l:libinih.a)

$(BUILD)/obj/verbs/of/%.o: CPPFLAGS += '-DOF_NUMBERS(X)=$(foreach n,$(OF_PRIVATES),X($(n)))' \
	'-DOF_PRIVATE_NAME(name)=$(foreach n,$(OF_PRIVATES),OF_PRIVATE_OF($(n),name,$(call of_at,$(n))))'

$(BUILD)/obj/verbs/of/libibverbs.map: verbs/of/libibverbs.map $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q){ cat $<; printf 'IBVERBS_PRIVATE_%s { global: verbs_register_driver_%s; };\n' \
		$(foreach n,$(OF_PRIVATES),$(n) $(n)); } > $@

# Found through its runtime path, so that it and whoever else comes to lie beside it share one libdiwarp. Some programs
# (MVAPICH2) open it, and librdmacm, by the name without a version.
$(OF_SO): $(OF_OBJ) $(OF_BASE) $(HOST_A) $(BUILD)/obj/verbs/of/libibverbs.map $(LIB_SO)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CFLAGS_all) $(SHARED) -Wl,-soname,libibverbs.so.1 \
		-Wl,--version-script,$(BUILD)/obj/verbs/of/libibverbs.map $(DEFS_$(MODE)) \
		-Wl,--enable-new-dtags,-rpath,'$$ORIGIN/..' -o $@ $(OF_OBJ) $(OF_BASE) $(HOST_A) $(LDFLAGS) \
		-L$(BUILD)/lib -ldiwarp -pthread
	$(Q)ln -sf libibverbs.so.1 $(@:.1=)

$(CMA_SO): $(CMA_OBJ) $(RS_OBJ) $(CMA_BASE) $(HOST_A) verbs/cma/librdmacm.map $(OF_SO)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CFLAGS_all) $(SHARED) -Wl,-soname,librdmacm.so.1 \
		-Wl,--version-script,verbs/cma/librdmacm.map $(DEFS_$(MODE)) \
		-Wl,--enable-new-dtags,-rpath,'$$ORIGIN:$$ORIGIN/..' -o $@ $(filter %.o %.a,$^) $(OF_SO) $(LDFLAGS) \
		-L$(BUILD)/lib -ldiwarp -lz -pthread
	$(Q)ln -sf librdmacm.so.1 $(@:.1=)

# libfabric finds a provider by its file's name, in the directory of FI_PROVIDER_PATH.
$(FI_SO): $(FI_OBJ) $(FI_BASE) mpi_glue/provider.map $(LIB_SO)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CFLAGS_all) $(SHARED) -Wl,-soname,libdiwarp-fi.so \
		-Wl,--version-script,mpi_glue/provider.map \
		$(DEFS_$(MODE)) -Wl,--enable-new-dtags,-rpath,'$$ORIGIN/../..' -o $@ $(FI_OBJ) $(FI_BASE) $(LDFLAGS) \
		-L$(BUILD)/lib -ldiwarp -lfabric -pthread

# What a preloaded library is linked with comes into the program's global scope, in front of the program's plugins. So
# libinih is inside and hidden, and ISA-L is opened by its name (sockets_preload/isal.c).

# A preloaded library gets the fast kind of thread-local storage.
$(BUILD)/obj/sockets_preload/%.o: CFLAGS += -ftls-model=initial-exec

$(SOCK_SO): $(SOCK_OBJ) $(SHM_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CFLAGS_all) $(SHARED) -Wl,-soname,libdiwarp_sockets.so $(DEFS_$(MODE)) -o $@ $^ \
		$(LDFLAGS) -Wl,--exclude-libs,ALL $(if $(INIH),-l:libinih.a) $(if $(ISAL),,-lz) -pthread -ldl

# The simulator runs both ends of diw cp --group, but neither their loops nor what they print.
GROUP_COPY_OBJ := $(patsubst %,$(BUILD)/obj/tools/%.o,util bar endpoint \
	$(addprefix cp/,blocks cwnd group_recv group_send \
	incoming members transfer xfer))

define suite
$(BUILD)/tests/$(1): $(call objs,tests/$(1)/*.c $(if $(filter wire sim,$(1)),tests/net/*.c)) \
		$(if $(filter unit,$(1)),$(FI_PURE_OBJ)) $(if $(filter sim,$(1)),$(GROUP_COPY_OBJ)) \
		$(SHM_A) $(HOST_A) $(LIB_A)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(CC) $$(CFLAGS_all) -o $$@ $$^ $$(LDFLAGS) $$(LIBS) $$(CHECK_LIBS) \
		$(if $(filter sim,$(1)),-lcjson -lcrypto -lm)
endef
$(foreach d,$(SUITES),$(eval $(call suite,$(d))))

# The folder of a program says what it is linked with: the library; the library with the interposer's registries, with
# the provider's headers, or with the socket engine, which is in no library by itself; or our libibverbs and librdmacm.
system_OBJ = $(LIB_A)
system_LIBS = $(LIBS)
sockets_OBJ = $(SHM_A) $(LIB_A)
rsockets_OBJ = $(RS_OBJ) $(HOST_A) $(LIB_A)
ibverbs_OBJ = $(OF_SO)
ibverbs_LIBS = -Wl,-rpath-link,$(BUILD)/lib -pthread
mpi_OBJ = $(FI_PURE_OBJ) $(LIB_A)
mpi_LIBS = $(LIBS) -lfabric
rdmacm_OBJ = $(CMA_SO) $(OF_SO)
rdmacm_LIBS = -Wl,-rpath-link,$(BUILD)/lib -lz -pthread
define system_programs
$(call system,$(1)): $(BUILD)/tests/system/%: $(BUILD)/obj/tests/system/$(1)/%.o $(or $($(1)_OBJ),$(system_OBJ))
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(CC) $$(CFLAGS_all) -o $$@ $$^ $$(LDFLAGS) $$(or $$($(1)_LIBS),$$(system_LIBS))
endef
$(foreach d,$(SYSTEM),$(eval $(call system_programs,$(d))))

# Libraries that tests preload beside ours.
$(BUILD)/tests/preload/%.so: $(BUILD)/obj/tests/preload/%.o
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(CFLAGS_all) -shared -o $@ $< $(LDFLAGS) -ldl

tests: $(TESTS)                 ## build the test programs

TEST_ENV = BUILD='$(BUILD)' MODE='$(MODE)' CC='$(CC)' MAKE='$(MAKE)'
check: all tests                ## build and run all tests (some 20 minutes on two cores)
	@$(TEST_ENV) tests/run

check-full: all tests           ## check, more simulator seeds, and README commands in a bare Debian (root, network)
	@$(TEST_ENV) tests/run --full

# Both ends of the exchange with siw, and rping's protocol on ours. siw's needs librdmacm-dev: siw.sh tells when it is
# not there.
INTEROP_ENDS := peer rping $(if $(CMA),pause.so) \
	$(if $(shell $(PKG_CONFIG) --exists librdmacm libibverbs 2>/dev/null && echo 1),siw_peer)
peer_OBJ = $(call objs,tests/interop/peer.c tests/interop/exchange.c tests/interop/plan.c) $(LIB_A)
rping_OBJ = $(call objs,tests/interop/peer.c tests/interop/rping.c tests/interop/plan.c) $(LIB_A)
siw_peer_OBJ = $(call objs,tests/interop/siw_peer.c tests/interop/exchange.c tests/interop/plan.c)
siw_peer_LIBS = -lrdmacm -libverbs
pause.so_OBJ = $(call objs,tests/interop/pause.c)
pause.so_LIBS = -shared
define interop_end
$(BUILD)/tests/interop/$(1): $$($(1)_OBJ)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)$$(CC) $$(CFLAGS_all) -o $$@ $$^ $$(LDFLAGS) $$(or $$($(1)_LIBS),$$(LIBS))
endef
$(foreach e,peer rping siw_peer pause.so,$(eval $(call interop_end,$(e))))

check-interop: all $(INTEROP_ENDS:%=$(BUILD)/tests/interop/%) ## RC with siw in a virtual machine (downloads 250 MB)
	@$(TEST_ENV) tests/run siw

check-mpi: all $(BUILD)/tests/system/pages ## OpenMPI, MPICH, MVAPICH over it, 2 to 16 ranks (ROUNDS=, RANKS=; hours)
	-@tests/mpi/mpich.sh
	@tests/mpi/mvapich.sh
	@$(TEST_ENV) tests/mpi/run.sh
	@$(TEST_ENV) NETWORKS='loss=1% loss=5% reorder=5% dup=5% loss=1%,reorder=5%,dup=5%' RANKS='2 4' \
		tests/mpi/run.sh 'openmpi diwarp '
	@$(TEST_ENV) tests/mpi/programs.sh
	@$(TEST_ENV) tests/mpi/fabtests.sh
	@$(TEST_ENV) tests/mpi/mpich_suite.sh

VERBS_OBJ := $(filter $(BUILD)/obj/verbs/%,$(LIB_OBJ))
check-layers: $(VERBS_OBJ)      ## no upward include, circle of calls, long line, namesake; exports agree; commits
	@tools/check-layers
	@tools/check-names
	@tools/check-commits
	@tools/check-circles $(VERBS_OBJ)

demo: all                       ## a file over a link that loses 1 %: send/recv, Write-Record, Write-Record with repair
	@BUILD='$(BUILD)' tools/demo

lint:                           ## clang-tidy over the C, shellcheck over the scripts, mandoc over the manual pages
	@CPPFLAGS='$(DEFINES)' tools/lint

HEADERS := $(addprefix verbs/,diw.h diw_cm.h diw_provider.h)
install: all                    ## install below DESTDIR and PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/diwarp $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 755 $(DIW) $(DESTDIR)$(PREFIX)/bin/diw
	install -m 644 $(HEADERS) $(DESTDIR)$(PREFIX)/include/diwarp
	install -m 644 $(LIB_A) $(DESTDIR)$(LIBDIR)/libdiwarp.a
	install -m 755 $(LIB_SO).0 $(DESTDIR)$(LIBDIR)/libdiwarp.so.$(VERSION)
	ln -sf libdiwarp.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libdiwarp.so.0
	ln -sf libdiwarp.so.0 $(DESTDIR)$(LIBDIR)/libdiwarp.so
	$(if $(IBV),install -D -m 755 $(OF_SO) $(DESTDIR)$(LIBDIR)/diwarp/libibverbs.so.1)
	$(if $(IBV),ln -sf libibverbs.so.1 $(DESTDIR)$(LIBDIR)/diwarp/libibverbs.so)
	$(if $(CMA),install -m 755 $(CMA_SO) $(DESTDIR)$(LIBDIR)/diwarp/librdmacm.so.1)
	$(if $(CMA),ln -sf librdmacm.so.1 $(DESTDIR)$(LIBDIR)/diwarp/librdmacm.so)
	install -D -m 755 $(SOCK_SO) $(DESTDIR)$(LIBDIR)/diwarp/libdiwarp_sockets.so
	$(if $(FI),install -D -m 755 $(FI_SO) $(DESTDIR)$(LIBDIR)/diwarp/fi/libdiwarp-fi.so)
	$(if $(IBV),install -D -m 644 verbs/of/diwdv.h $(DESTDIR)$(PREFIX)/include/infiniband/diwdv.h)
	$(foreach p,diwarp $(if $(IBV),diwdv),sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|' \
		-e 's|@VERSION@|$(VERSION)|; s|@LIBS@|$(LIBS)|' $(p).pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/$(p).pc;)
	$(foreach m,$(wildcard man/*.[1-9]),install -D -m 644 $(m) $(DESTDIR)$(call man_dest,$(m));)
	$(foreach n,$(MAN_NAMES),printf '.so man3/%s\n' $(notdir $(n)) | \
		install -m 644 /dev/stdin $(DESTDIR)$(call man_name,$(n));)

# A page of section 3 is found by every name that it begins with: NAME/PAGE for each that is not its file's.
MAN_NAMES = $(shell awk 'FNR == 1 { on = 1 } /^\.Nd/ { on = 0 } on && $$1 == ".Nm" && FILENAME != "man/" $$2 ".3" { \
	page = FILENAME; sub("man", $$2, page); print page }' man/*.3)
man_name = $(PREFIX)/share/man/man3/$(patsubst %/,%,$(dir $(1))).3
man_dest = $(PREFIX)/share/man/man$(patsubst .%,%,$(suffix $(1)))/$(notdir $(1))
deb: all                        ## Debian packages of it, in BUILD/deb
	@BUILD='$(BUILD)' tools/deb build

uninstall:                      ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/diw $(DESTDIR)$(LIBDIR)/libdiwarp.a \
		$(addprefix $(DESTDIR)$(PREFIX)/include/diwarp/,$(notdir $(HEADERS))) \
		$(DESTDIR)$(LIBDIR)/libdiwarp.so $(DESTDIR)$(LIBDIR)/libdiwarp.so.0 \
		$(DESTDIR)$(LIBDIR)/libdiwarp.so.$(VERSION) $(DESTDIR)$(LIBDIR)/pkgconfig/diwarp.pc \
		$(DESTDIR)$(LIBDIR)/diwarp/libdiwarp_sockets.so \
		$(addprefix $(DESTDIR)$(LIBDIR)/diwarp/,libibverbs.so.1 libibverbs.so librdmacm.so.1 librdmacm.so) \
		$(DESTDIR)$(PREFIX)/include/infiniband/diwdv.h $(DESTDIR)$(LIBDIR)/pkgconfig/diwdv.pc \
		$(foreach m,$(wildcard man/*.[1-9]),$(DESTDIR)$(call man_dest,$(m))) \
		$(foreach n,$(MAN_NAMES),$(DESTDIR)$(call man_name,$(n)))
	rmdir $(DESTDIR)$(PREFIX)/include/diwarp
	! rmdir $(DESTDIR)$(PREFIX)/include/infiniband 2> /dev/null || :
	rm -f $(DESTDIR)$(LIBDIR)/diwarp/fi/libdiwarp-fi.so
	[ ! -d $(DESTDIR)$(LIBDIR)/diwarp/fi ] || rmdir $(DESTDIR)$(LIBDIR)/diwarp/fi
	[ ! -d $(DESTDIR)$(LIBDIR)/diwarp ] || rmdir $(DESTDIR)$(LIBDIR)/diwarp

clean:                          ## remove BUILD
	rm -rf $(BUILD)

help:                           ## print this
	@awk -F ':.*## *' '/^[a-z-]+:.*##/ { printf "  %-14s %s\n", $$1, $$2 } \
		/^#: / { s = s "  " substr($$0, 4) "\n" } END { printf "\nsettings:\n%s", s }' Makefile

.PHONY: all tests check check-full check-interop check-mpi check-layers deb demo lint install uninstall clean help FORCE
.DELETE_ON_ERROR:
.SECONDARY:
-include $(patsubst %.o,%.d,$(FI_OBJ) $(LIB_OBJ) $(OF_OBJ) $(CMA_OBJ) $(RS_OBJ) $(HOST_OBJ) $(SOCK_OBJ) $(SHM_OBJ) \
	$(TOOL_OBJ) \
	$(call objs,tests/*/*.c tests/system/*/*.c))
