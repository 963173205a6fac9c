#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs MPICH's own tests (test/mpi of its sources) over the provider and over tcp;ofi_rxm, without shared memory between
# the ranks. Prints a table, and a line for each test that passes with one provider only. Fails if the provider fails
# a test that tcp;ofi_rxm passes.
# usage: [SUITES="pt2pt coll rma datatype comm"] [PROVIDERS="tcp;ofi_rxm diwarp"] [MPICH=DIRECTORY] [SOURCES=DIRECTORY]
#        [TESTS=REGEX] tests/mpi/mpich_suite.sh
#
# MPICH is where an MPICH is installed, by default the one of tests/mpi/mpich.sh, and SOURCES are MPICH's sources. TESTS
# (extended regular expression) chooses lines of the suites' lists. The output of each suite is in build/mpi/suite.
. "${0%/*}/../system/lib.sh"
MPICH=$(readlink -m -- "${MPICH:-${XDG_CACHE_HOME:-$HOME/.cache}/diwarp/mpich}")
SOURCES=$(readlink -m -- "${SOURCES:-$MPICH/src}")
SUITES=${SUITES:-pt2pt coll rma datatype comm} PROVIDERS=${PROVIDERS:-tcp;ofi_rxm diwarp} TESTS=${TESTS:-.}
made=$PWD/build/mpi/suite.$(cksum <<< "$MPICH" | cut -d ' ' -f 1)

build() {
	mkdir -p "$made" || return
	[ -x "$made/runtests" ] || (cd "$made" && "$SOURCES/test/mpi/configure" --with-mpi="$MPICH" \
		--disable-fortran --disable-cxx) > "$made/log" 2>&1 || return
	make -s -C "$made/util" >> "$made/log" 2>&1 && make -s -C "$made/dtpools" >> "$made/log" 2>&1 || return
	# A test that cannot be compiled counts as failed.
	for suite in $SUITES; do
		make -s -k -j2 -C "$made/$suite" >> "$made/log" 2>&1
	done
	return 0
}

# tests PROVIDER SUITE: runs the suite's tests. Prints a line for each, "passed TEST" or "failed TEST".
tests() {
	local with=(env FI_PROVIDER="$1" FI_TCP_IFACE=va) tap=$made/$2.$1.tap
	[ "$1" != diwarp ] || with=("$DIW" run --mpi env FI_DIWARP_IFACE=va)
	grep -E "$TESTS" "$made/$2/testlist" > "$made/$2/chosen"
	(cd "$made/$2" && MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ofi "${with[@]}" ../runtests -tests=chosen \
		-srcdir="$SOURCES/test/mpi/$2" -tapfile="$tap" -xmlfile="$tap.xml") > "$made/$2.$1.log" 2>&1 < /dev/null
	awk '/# SKIP/ { next } /^ok/ { $1 = "passed" } /^not ok/ { $1 = "failed"; $2 = "" }
		/^(passed|failed)/ { sub(/ #.*/, ""); sub(/ [0-9]* - /, " "); print }' "$tap" |
		awk '{ n[$0]++; print $0 (n[$0] > 1 ? " (" n[$0] ")" : "") }'
}

[ -e "$BUILD/lib/diwarp/fi/libdiwarp-fi.so" ] || { skip "built without libfabric-dev"; end; }
[ -x "$SOURCES/test/mpi/configure" ] || { skip "no sources of MPICH: tests/mpi/mpich.sh"; end; }
build || { not_ok "MPICH's tests: see $made/log"; end; }
two_namespaces 1500 || { not_ok "two network namespaces"; end; }
echo "| suite | ${PROVIDERS// / | } |"
echo "|---|$(sed 's/[^ ]* */---|/g' <<< "$PROVIDERS")"
for suite in $SUITES; do
	line="| $suite |"
	for provider in $PROVIDERS; do
		tests "$provider" "$suite" > "$TMP/$suite.$provider"
		line+=" $(grep -c ^passed "$TMP/$suite.$provider") of $(wc -l < "$TMP/$suite.$provider") |"
	done
	echo "$line"
done
worse=0
for suite in $SUITES; do
	for provider in $PROVIDERS; do
		sort "$TMP/$suite.$provider" -o "$TMP/sorted.$provider"
	done
	# The tests that the first provider passes and the second fails, and the other way round.
	read -r first second <<< "$PROVIDERS"
	[ -n "$second" ] || continue
	while read -r verdict test; do
		echo "$suite: $second $verdict, $first did not: $test"
		[ "$verdict" = passed ] || worse=$((worse + 1))
	done < <(comm -13 "$TMP/sorted.$first" "$TMP/sorted.$second")
done
echo "$worse failed that ${PROVIDERS%% *} passes"
[ $worse = 0 ]
