#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes what tests/mpi/programs.sh runs, in build/mpi/programs (MPI/programs): Debian's HPCC, LAMMPS, ScaLAPACK's
# testers and mpi4py, unpacked and not installed, mpi4py's own suite from PyPI, and our kernels, compiled.
# usage: tests/mpi/get_programs.sh      exit 0: they are there; 77: they can't be had here
#
# What is there already is not made again, and then no network is needed.
set -u
cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." || exit 1
tests/mpi/get.sh || exit
MPI=$(readlink -f -- "${MPI:-build/mpi}")
programs=$MPI/programs
DEBS=$MPI/apt APT_LOG=$MPI/apt.log
. tools/debs.sh

say() { echo "mpi: $*" >&2; }
cannot() { say "$*"; exit 77; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }

# OpenMPI and its libraries are those of tests/mpi/get.sh.
needed() {
	local pkg own
	mapfile -t own < <(packages mpiapp)
	for pkg in $(with_libraries "${own[@]}"); do
		case $pkg in libc6 | libopenmpi3 | libmpich12 | *-mpich*) continue ;; esac
		installed "$pkg" || echo "$pkg"
	done
}

download() {
	local list
	mapfile -t list < <(needed)
	rm -rf "$programs.deb"
	mkdir "$programs.deb" && cd "$programs.deb" && apt_get download "${list[@]}" > "$APT_LOG" 2>&1
}

get_debian() {
	local file
	[ ! -e "$programs/usr" ] || return 0
	say "downloading and unpacking some 15 MB of programs, once"
	(download) || { fetch_lists && (download); } || cannot "packages can't be downloaded: $(apt_reason)"
	for file in "$programs.deb"/*.deb; do
		dpkg -x "$file" "$programs" || cannot "$file can't be unpacked"
	done
	rm -r "$programs.deb"
}

# The suite has the version of Debian's mpi4py.
get_suite() {
	local version
	[ ! -e "$programs/suite/test" ] || return 0
	version=$(sed -n 's/^Version: //p' "$programs"/usr/lib/python3/dist-packages/mpi4py*.egg-info/PKG-INFO \
		"$programs"/usr/lib/python3/dist-packages/mpi4py*.egg-info 2> /dev/null | head -n 1)
	rm -rf "$programs/pip" "$programs/suite"
	python3 -m pip download -q --no-deps --no-binary :all: -d "$programs/pip" "mpi4py==$version" \
		> "$MPI/pip.log" 2>&1 || { say "no suite of mpi4py: $(tail -n 1 "$MPI/pip.log")"; return; }
	mkdir "$programs/suite" && tar -xzf "$programs"/pip/mpi4py-*.tar.gz -C "$programs/suite" --strip-components=1
}

# compile NAME OPTION...
compile() {
	local lib
	[ -z "$(find tests/mpi/{kernels,killed,pmpi} "$0" "$MPI/root" -maxdepth 1 -newer "$programs/$1" 2>&1)" ] &&
		return
	lib=$MPI/root/usr/lib/$(${CC:-gcc} -print-multiarch)
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -isystem "$lib/openmpi/include" -o "$programs/$1" \
		"${@:2}" "$lib/libmpi.so.40" -Wl,--allow-shlib-undefined -lm || exit
}

exec 9> "$MPI/lock"
flock 9
get_debian
get_suite
compile kernels tests/mpi/kernels/*.c
compile killed tests/mpi/killed/killed.c
compile libpmpi.so -shared -fPIC tests/mpi/pmpi/pmpi.c
exit 0
