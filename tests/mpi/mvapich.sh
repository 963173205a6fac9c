#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds MVAPICH2 2.3.7 (ch3:mrail over gen2, that is libibverbs) and MVAPICH 4 (ch4:ofi, for Debian's libfabric).
# Installs them in MVAPICH2 and MVAPICH, which are ~/.cache/diwarp/mvapich2 and ~/.cache/diwarp/mvapich unless set.
# usage: [MVAPICH2_SOURCE=PATH] [MVAPICH_SOURCE=PATH] tests/mpi/mvapich.sh
#
# Each PATH is a directory of sources or a tarball, and is not changed. Without one, what isn't installed is skipped.
# The exit status is 1 if sources were named that could not be built.
set -u
cache=${XDG_CACHE_HOME:-$HOME/.cache}/diwarp
MVAPICH2=${MVAPICH2:-$cache/mvapich2} MVAPICH=${MVAPICH:-$cache/mvapich}
# The benchmarks of OSU, which no row runs, do not link with each version of libtool.
small=(--disable-fortran --disable-cxx --disable-romio --disable-static --disable-omb)
status=0

say() { echo "mvapich: $*" >&2; }

# GCC takes minutes for one of MVAPICH2's tables of tuning with -O1, and seconds without. All files get the same age: in
# a copy of the repository configure may be older than configure.ac, and make would begin to make it again.
unpack() {
	rm -rf src build && mkdir -p src build/bin || return
	if [ -d "$1" ]; then
		cp -R -- "$1/." src
	else
		tar -xf "$1" -C src --strip-components=1
	fi && find src/src/mpi/coll -maxdepth 1 -name '*_tuning.c' -exec sed -i '1i #pragma GCC optimize 0' {} + &&
		find src -type f -exec touch -r src/configure.ac -- {} +
}

# A tarball of a release has what autoconf and automake make; a copy of the repository lacks all or some of it.
prepare() {
	cd src || return
	if [ ! -e configure ]; then
		./autogen.sh
	elif [ ! -e Makefile.in ]; then
		autoreconf -f -i --no-recursive -I confdb
	fi
}

# configure asks pkg-config for the libraries of a static libfabric. It gets those of the shared one, since Debian lacks
# the others. GCC has -fno-common since version 10, and the sources define some variables in several files.
compile() {
	cd build || return
	printf '#!/bin/sh\n[ "$1" != --static ] || shift\nexec %s "$@"\n' "$(command -v pkg-config)" > bin/pkg-config &&
		chmod +x bin/pkg-config && export PATH=$PWD/bin:$PATH &&
		../src/configure CFLAGS="-O1 -fcommon -w" "${small[@]}" "$@" &&
		make -s -j2 && make -s install && [ -x "$prefix/bin/mpiexec.hydra" ]
}

# one NAME SOURCE PREFIX OPTION...
one() {
	local name=$1 source=$2 prefix=$3
	shift 3
	[ ! -x "$prefix/bin/mpiexec.hydra" ] || return 0
	if [ -z "$source" ]; then
		say "SKIP: no $name: ${name^^}_SOURCE= names no sources (https://mvapich.cse.ohio-state.edu/downloads/)"
		return
	fi
	mkdir -p "$prefix" && prefix=$(readlink -f -- "$prefix") || return
	[ -e "$source" ] || { say "no such sources: $source"; return 1; }
	source=$(readlink -f -- "$source")
	say "building $name, once: see $prefix/log"
	(cd "$prefix" && unpack "$source" && (prepare) && compile --prefix="$prefix" "$@") > "$prefix/log" 2>&1 ||
		{ say "$name is not built: $(tail -n 1 "$prefix/log")"; return 1; }
	rm -rf "$prefix/src" "$prefix/build"
}

one mvapich2 "${MVAPICH2_SOURCE:-}" "$MVAPICH2" --with-pm=hydra --with-rdma=gen2 --disable-mcast || status=1
one mvapich "${MVAPICH_SOURCE:-}" "$MVAPICH" --with-device=ch4:ofi --with-libfabric=/usr --without-ucx \
	--with-hwloc=embedded --with-datatype-engine=dataloop || status=1
exit $status
