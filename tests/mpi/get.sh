#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes the programs of `make check-mpi`, in MPI, which is build/mpi unless set: Debian's OpenMPI and MPICH, unpacked
# and not installed, an MPICH with libfabric from PyPI, and tests/mpi compiled with each. It is also compiled with the
# MPICH that is installed in MPICH (~/.cache/diwarp/mpich unless set; mpich.sh makes it), and with the MVAPICH2 in
# MVAPICH2 (~/.cache/diwarp/mvapich2 unless set) and the MVAPICH in MVAPICH (~/.cache/diwarp/mvapich unless set), which
# mvapich.sh makes.
# usage: tests/mpi/get.sh      exit 0: at least Debian's are there; 77: they can't be had here
#
# Prints a line for each MPI that is not there, and why. What is there already is not made again, and then no network is
# needed.
set -u
cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." || exit 1
mkdir -p "${MPI:=build/mpi}" || exit 1
MPI=$(readlink -f -- "$MPI")
MVAPICH=${MVAPICH:-${XDG_CACHE_HOME:-$HOME/.cache}/diwarp/mvapich}
MVAPICH2=${MVAPICH2:-${XDG_CACHE_HOME:-$HOME/.cache}/diwarp/mvapich2}
MPICH=${MPICH:-${XDG_CACHE_HOME:-$HOME/.cache}/diwarp/mpich}
root=$MPI/root
DEBS=$MPI/apt APT_LOG=$MPI/apt.log
. tools/debs.sh

say() { echo "mpi: $*" >&2; }
cannot() { say "$*"; exit 77; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }

# The libraries that diwarp takes the place of are never among them.
needed() {
	local pkg own
	mapfile -t own < <(packages mpi)
	for pkg in $(with_libraries "${own[@]}"); do
		case $pkg in libc6 | libibverbs1 | librdmacm1) continue ;; esac
		[[ " ${own[*]} " = *" $pkg "* ]] || ! installed "$pkg" || continue
		echo "$pkg"
	done
}

download() {
	local list
	mapfile -t list < <(needed)
	[ ${#list[@]} -gt 0 ] || return
	rm -rf "$MPI/deb"
	mkdir "$MPI/deb" && cd "$MPI/deb" && apt_get download "${list[@]}" > "$APT_LOG" 2>&1
}

unpack() {
	local file
	rm -rf "$root"
	mkdir -p "$root"
	for file in "$MPI"/deb/*.deb; do
		dpkg -x "$file" "$root" || return
	done
	# What installing it would leave to update-alternatives.
	for file in "$root"/usr/lib/libpsm1/*.so.*.*; do
		[ ! -e "$file" ] || ln -s "${file##*/}" "${file%.*}" || return
	done
	rm -r "$MPI/deb"
}

get_debian() {
	! cmp -s "$MPI/made" <(packages mpi; cksum < "$0") || return 0
	for tool in apt-get apt-cache dpkg dpkg-query; do
		command -v $tool > /dev/null || cannot "no $tool here: OpenMPI and MPICH are Debian's packages"
	done
	say "downloading and unpacking some 40 MB of packages, once"
	(download) || { fetch_lists && (download); } || cannot "packages can't be downloaded: $(apt_reason)"
	unpack || cannot "packages can't be unpacked"
	{ packages mpi; cksum < "$0"; } > "$MPI/made"
}

# PyPI's MPICH brings a newer libfabric, with its verbs provider; Debian's has only UCX.
get_wheel() {
	[ ! -e "$MPI/wheel/bin/mpiexec" ] || return 0
	rm -rf "$MPI/wheel.new" "$MPI/wheel.venv"
	python3 -m venv "$MPI/wheel.venv" > "$MPI/pip.log" 2>&1 &&
		"$MPI/wheel.venv/bin/pip" install -q "mpich==5.0.*" >> "$MPI/pip.log" 2>&1 &&
		mv "$MPI/wheel.venv" "$MPI/wheel" && return
	say "no MPICH over libfabric: PyPI's is not to be had: $(tail -n 1 "$MPI/pip.log")"
}

# compile NAME INCLUDE LIBRARY
compile() {
	[ -z "$(find tests/mpi/*.[ch] "$0" "$3" -newer "$MPI/check.$1" 2>&1)" ] && return
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wno-stringop-overflow -isystem "$2" tests/mpi/*.c \
		-o "$MPI/check.$1" "$3" -Wl,--allow-shlib-undefined || exit
}

# compile_installed NAME PREFIX ADVICE
compile_installed() {
	if [ -e "$2/lib/libmpi.so" ]; then
		compile "$1" "$2/include" "$2/lib/libmpi.so"
	else
		rm -f "$MPI/check.$1"
		say "no $1: none is installed in $2 ($3)"
	fi
}

exec 9> "$MPI/lock"
flock 9
get_debian
get_wheel
lib=$root/usr/lib/$(${CC:-gcc} -print-multiarch)
compile openmpi "$lib/openmpi/include" "$lib/libmpi.so.40"
compile mpich "$root/usr/include/$(${CC:-gcc} -print-multiarch)/mpich" "$lib/libmpich.so.12"
[ ! -e "$MPI/wheel/bin/mpiexec" ] || compile mpich5 "$MPI/wheel/include" "$MPI/wheel/lib/libmpi.so.12"
compile_installed mpich-ofi "$MPICH" "tests/mpi/mpich.sh makes one"
compile_installed mvapich2 "$MVAPICH2" "tests/mpi/mvapich.sh makes one"
compile_installed mvapich "$MVAPICH" "tests/mpi/mvapich.sh makes one"
exit 0
