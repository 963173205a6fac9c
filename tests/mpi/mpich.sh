#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds MPICH with its libfabric device (ch4:ofi), from Debian's source package and for Debian's libfabric. Installs it
# in MPICH, which is ~/.cache/diwarp/mpich unless set. Debian's own build of MPICH has only UCX.
# usage: tests/mpi/mpich.sh      exit 0: it is there; 77: it can't be had here
#
# The sources stay in MPICH/src: tests/mpi/mpich_suite.sh runs their tests.
set -u
MPICH=${MPICH:-${XDG_CACHE_HOME:-$HOME/.cache}/diwarp/mpich}
here=$(dirname -- "$(readlink -f -- "$0")")
DEBS=$MPICH/apt APT_LOG=$MPICH/apt.log
cd -- "$here/../.." || exit 1
. tools/debs.sh

say() { echo "mpich: $*" >&2; }
cannot() { say "$*"; exit 77; }

# The archive that has the system's package mpich, as a line of sources.list that names its sources.
archive() { apt-cache policy mpich | awk '$2 ~ /^http/ { sub("/", " ", $3); print "deb-src " $2, $3; exit }'; }

get_source() {
	[ ! -e "$MPICH/src/configure" ] || return 0
	mkdir -p "$DEBS/source" "$MPICH/src.new" && archive > "$DEBS/sources.list" || return
	[ -s "$DEBS/sources.list" ] || return
	own_lists=(-o "Dir::Etc::sourcelist=$DEBS/sources.list" -o Dir::Etc::sourceparts=/dev/null)
	fetch_lists && (cd "$DEBS/source" && apt_get source --download-only mpich > "$APT_LOG" 2>&1) &&
		tar -xf "$DEBS"/source/mpich_*.orig.tar.* -C "$MPICH/src.new" --strip-components=1 &&
		mv "$MPICH/src.new" "$MPICH/src"
}

# Without Fortran, C++ and MPI-IO, and with the smaller of two engines for datatypes: less to compile. configure asks
# pkg-config for the libraries of a static libfabric. It gets those of the shared one, since Debian lacks the others.
build() {
	mkdir -p "$MPICH/build/bin" && cd "$MPICH/build" &&
		printf '#!/bin/sh\n[ "$1" != --static ] || shift\nexec %s "$@"\n' "$(command -v pkg-config)" \
			> bin/pkg-config && chmod +x bin/pkg-config && export PATH=$PWD/bin:$PATH &&
		"$MPICH/src/configure" --prefix="$MPICH" --with-device=ch4:ofi --with-libfabric=/usr --without-ucx \
			--disable-fortran --disable-cxx --disable-romio --disable-static --with-hwloc=embedded \
			--with-datatype-engine=dataloop &&
		make -s -j2 && make -s install
}

[ ! -x "$MPICH/bin/mpiexec.hydra" ] || exit 0
pkg-config --exists libfabric || cannot "no libfabric-dev here"
mkdir -p "$MPICH" && MPICH=$(readlink -f -- "$MPICH") || exit 1
get_source || cannot "its sources can't be downloaded: $(apt_reason)"
say "building MPICH, once: see $MPICH/log"
(build) > "$MPICH/log" 2>&1 || cannot "not built: $(tail -n 1 "$MPICH/log")"
