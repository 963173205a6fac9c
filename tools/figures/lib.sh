# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# For tools/figures/run: programs in pairs, alone in a network namespace, and what is written of them.

median() { sort -n "$@" | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "nan" }'; }
program() {
	local dir
	for dir in "$root/usr/bin" "$root/usr/sbin"; do
		[ ! -x "$dir/$1" ] || { echo "$dir/$1"; return; }
	done
	command -v "$1"
}
LIBRARIES() {
	local lib=$root/usr/lib
	printf '%s:' "$lib"/*-linux-gnu "$root"/lib/*-linux-gnu "$lib"/*-linux-gnu/{blas,lapack,pulseaudio,vlc}
}

# use HOW NAME ARGUMENT...: runs it, interposed or plain. STAMPS=FILE: with stamp.so before the interposer.
use() {
	local how=$1 name=$2 preload=${STAMPS:+$TMP/stamp.so}
	shift 2
	[ "$how" = plain ] || preload+=" $PRELOAD"
	exec ${AS:-} env LD_LIBRARY_PATH="$(LIBRARIES)" LD_PRELOAD="$preload" DIWARP_SOCKETS_STREAMS=on DIWARP_SOCKETS_LOG=info "$(program "$name")" "$@"
}

# within SECONDS COMMAND...: until it succeeds.
within() {
	local until=$((SECONDS + $1))
	shift
	until "$@" > /dev/null 2>&1; do
		[ $SECONDS -le $until ] || return 1
		sleep 0.05
	done
}
listening() { ss -Htuln "sport = :$1" | grep -q .; }

# stop PID...: ends them, as their user would, and otherwise.
stop() {
	kill "$@" 2> /dev/null
	within 5 gone "$@" || kill -9 "$@" 2> /dev/null
	wait "$@" 2> /dev/null
}
# SIPp ends its calls before itself.
stop_now() { kill -9 "$@" 2> /dev/null; wait "$@" 2> /dev/null; }
gone() { ! kill -0 "$@"; }


# Some programs refuse to run as root.
as_nobody() {
	local home=$TMP/nobody
	mkdir -p "$home"
	chmod 755 "$TMP"
	chown 65534:65534 "$home" && chmod 700 "$home"
	AS="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$home XDG_RUNTIME_DIR=$home"
	AS+=" VLC_PLUGIN_PATH=$(printf '%s' "$root"/usr/lib/*-linux-gnu/vlc/plugins)"
}

# What it was that PROGRAMS' own words in FILE tell of: a message in a frame, bytes in FPDUs, or neither.
wire() {
	if grep -q 'sock_stream_tx=[1-9]' "$1"; then
		echo RC
	elif grep -q 'sock_tx_framed=[1-9]' "$1"; then
		echo UD
	else
		echo "$2"
	fi
}
# The counters of a process that lives, as it would write them.
live() {
	"$BUILD/bin/diw" stat "$1" --json 2> /dev/null | jq -r '.counters | to_entries | map("\(.key)=\(.value)") | join(" ")'
}
# goal WHAT GOAL MEASURED
goal() { printf '%-44s goal %-14s measured %s\n' "$1" "$2" "$3"; }
less() {
	awk -v a="$1" -v b="$2" 'BEGIN { if (a > 0 && b > 0) printf "%.1f %% less", (1 - a / b) * 100; else print "nothing" }'
}

# plot NAME TITLE YLABEL COMMANDS: NAME.svg from what COMMANDS plot, where gnuplot is.
plot() {
	[ -n "$(program gnuplot-nox)" ] || { echo "no gnuplot: no $1.svg"; return; }
	LD_LIBRARY_PATH="$(LIBRARIES)" "$(program gnuplot-nox)" <<- END
		set terminal svg size 640,400 dynamic background "white"
		set output "$OUT/$1.svg"
		set title "$2"
		set ylabel "$3"
		set datafile separator ","
		set grid ytics
		set style fill solid 0.5
		$4
	END
}
