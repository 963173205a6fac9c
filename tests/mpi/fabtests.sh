#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs the tests of reliable datagram endpoints of fabtests, libfabric's own tests, over the provider and over
# tcp;ofi_rxm. Prints a table. Fails if the provider fails a test, or does not run a test that tcp;ofi_rxm passes.
# usage: [FABTESTS=DIRECTORY] [PROVIDERS="tcp;ofi_rxm diwarp"] tests/mpi/fabtests.sh [PATTERN]
#
# FABTESTS is a folder with the sources of fabtests, of the version of the libfabric that is installed. Without it, they
# are downloaded. PATTERN (extended regular expression) chooses tests. The output of failed tests is in build/mpi/log.
. "${0%/*}/../system/lib.sh"
MPI=${MPI:-build/mpi}
PATTERN=${1:-.} PROVIDERS=${PROVIDERS:-tcp;ofi_rxm diwarp}
version=$(pkg-config --modversion libfabric 2> /dev/null)
bin=$MPI/fabtests-$version/bin
log=$MPI/log
here=$PWD

# Programs of one process. A stands for the address of the host.
units=("fi_getinfo_test -s A A" "fi_av_test -g A -n 1 -s A -e rdm" "fi_dom_test -n 2" fi_eq_test fi_cq_test fi_mr_test
	fi_cntr_test)
# Programs of a server and a client.
pairs=("fi_av_xfer -e rdm" "fi_cq_data -e rdm" "fi_poll -t queue" "fi_poll -t counter" fi_rdm "fi_rdm -U"
	fi_rdm_rma_event fi_rdm_rma_trigger "fi_shared_ctx -e rdm" fi_rdm_tagged_peek fi_scalable_ep fi_rdm_shared_av
	"fi_multi_mr -e rdm -V" "fi_multi_ep -e rdm -v" "fi_recv_cancel -e rdm -V" "fi_unexpected_msg -e rdm -I 10"
	"fi_bw -e rdm -v -T 1" "fi_bw -e rdm -v -T 1 -U" "fi_rdm_multi_client -C 10 -I 5"
	"fi_rdm_multi_client -C 10 -I 5 -U" "fi_rma_bw -e rdm -o write -I 5" "fi_rma_bw -e rdm -o write -I 5 -U"
	"fi_rma_bw -e rdm -o read -I 5"
	"fi_rma_bw -e rdm -o read -I 5 -U" "fi_rma_bw -e rdm -o writedata -I 5"
	"fi_rma_bw -e rdm -o writedata -I 5 -U" "fi_rdm_atomic -I 5 -o all" "fi_rdm_atomic -I 5 -o all -U"
	"fi_rdm_cntr_pingpong -I 5" "fi_multi_recv -e rdm -I 5"
	"fi_rdm_pingpong -I 5" "fi_rdm_pingpong -I 5 -U" "fi_rdm_pingpong -I 5 -v" "fi_rdm_pingpong -I 5 -v -U"
	"fi_rdm_pingpong -I 5 -k" "fi_rdm_tagged_pingpong -I 5" "fi_rdm_tagged_pingpong -I 5 -U"
	"fi_rdm_tagged_pingpong -I 5 -v" "fi_rdm_tagged_pingpong -I 5 -v -U" "fi_rdm_tagged_bw -I 5"
	"fi_rdm_tagged_bw -I 5 -U" "fi_rdm_tagged_bw -I 5 -v" "fi_rdm_tagged_bw -I 5 -v -U")

get_sources() {
	local url=https://github.com/ofiwg/libfabric/releases/download/v$version/fabtests-$version.tar.bz2
	[ -z "${FABTESTS:-}" ] || { cp -r "$FABTESTS" "$1"; return; }
	mkdir -p "$1" && curl -sfL "$url" | tar -xj -C "$1" --strip-components=1 2> /dev/null
}

build() {
	local src=$MPI/fabtests.src
	[ ! -x "$bin/fi_rdm" ] || return 0
	rm -rf "$src"
	get_sources "$src" ||
		{ skip "no sources of fabtests $version: FABTESTS names none, and they can't be downloaded"; end; }
	(cd "$src" && { [ -e configure ] || ./autogen.sh; } && ./configure --prefix="$here/$MPI/fabtests-$version" &&
		make -s && make -s install) > "$MPI/fabtests.log" 2>&1 ||
		{ not_ok "fabtests: see $MPI/fabtests.log"; end; }
}

# fabtest PROVIDER TEST: sets VERDICT to passed, failed, or none. None: the provider lacks a capability that the test
# needs.
fabtest() {
	local command words status=0 other=0
	read -ra words <<< "$2"
	command=(env ${DIRECTORY:+FI_PROVIDER_PATH="$DIRECTORY"} timeout 60 "$bin/${words[0]}" "${words[@]:1}" -p "$1")
	if [[ " ${units[*]} " = *" $2 "* ]]; then
		"${command[@]//#A/$A4}" > "$TMP/client" 2>&1 || status=$?
		: > "$TMP/server"
	else
		background "$TMP/server" in_b "${command[@]}" -s "$B4"
		sleep 0.5
		"${command[@]}" -s "$A4" "$B4" > "$TMP/client" 2>&1 || status=$?
		join "$PID" 60 > /dev/null || other=$?
	fi
	case " $status $other " in
	" 0 0 ") VERDICT=passed ;;
	*" 61 "* | *" 38 "*) VERDICT=none ;;
	*) VERDICT=failed; cat "$TMP/client" "$TMP/server" > "$log/fabtests.$1.${2// /_}" ;;
	esac
}

[ -e "$BUILD/lib/diwarp/fi/libdiwarp-fi.so" ] || { skip "built without libfabric-dev"; end; }
mkdir -p "$log"
build
two_namespaces 1500 || { not_ok "two network namespaces"; end; }
echo "| test | ${PROVIDERS// / | } |"
echo "|---|$(sed 's/[^ ]* */---|/g' <<< "$PROVIDERS")"
worse=0
for test in "${units[@]}" "${pairs[@]}"; do
	[[ $test =~ $PATTERN ]] || continue
	line="| \`$test\` |" before=none
	for provider in $PROVIDERS; do
		DIRECTORY=""
		[ "$provider" != diwarp ] || DIRECTORY=$BUILD/lib/diwarp/fi
		fabtest "$provider" "$test"
		line+=" $VERDICT |"
		if [ "$provider" != diwarp ]; then
			before=$VERDICT
		elif [ $VERDICT = failed ] || { [ $VERDICT = none ] && [ "$before" = passed ]; }; then
			worse=$((worse + 1))
		fi
	done
	echo "$line"
done
echo "$worse failed, or did not run where tcp;ofi_rxm passes"
[ $worse = 0 ]
