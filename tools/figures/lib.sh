# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# For tools/figures/run: pairs of programs in a network namespace of their own, and the files with their results.

# quantile Q FILE...: of the numbers in the files, a line each.
quantile() { sort -n "${@:2}" | awk -v q="$1" '{ v[NR] = $1 } END { print NR ? v[int((NR - 1) * q) + 1] : "nan" }'; }
median() { quantile 0.5 "$@"; }
program() {
	local dir
	for dir in "$root/usr/bin" "$root/usr/sbin" "$root"/usr/lib/postgresql/*/bin; do
		[ ! -x "$dir/$1" ] || { echo "$dir/$1"; return; }
	done
	command -v "$1"
}
LIBRARIES() {
	local lib=$root/usr/lib
	printf '%s:' "$lib"/*-linux-gnu "$root"/lib/*-linux-gnu "$lib"/*-linux-gnu/{blas,lapack,pulseaudio,vlc}
}

# use HOW NAME ARGUMENT...: runs the program plain; interposed; or as record, interposed and with messages to it as
# Write-Records. STAMPS=FILE: with stamp.so before the interposer. IN: a command that enters a namespace.
use() {
	local how=$1 name=$2 mode=sendrecv preload=${STAMPS:+$TMP/stamp.so}
	shift 2
	[ "$how" = plain ] || preload+=" $PRELOAD"
	[ "$how" != record ] || mode=write-record
	exec ${IN:-} ${AS:-} env LD_LIBRARY_PATH="$(LIBRARIES)" LD_PRELOAD="$preload" DIWARP_SOCKETS_STREAMS=on \
		DIWARP_SOCKETS_MODE=$mode DIWARP_SOCKETS_LOG=info "$(program "$name")" "$@"
}

# within SECONDS COMMAND...: repeats the command until it succeeds.
within() {
	local until=$((SECONDS + $1))
	shift
	until "$@" > /dev/null 2>&1; do
		[ $SECONDS -le $until ] || return 1
		sleep 0.05
	done
}
listening() { ${IN:-} ss -Htuln "sport = :$1" | grep -q .; }

# stop PID...: ends the processes as their user would, and kills them if they do not end.
stop() {
	kill "$@" 2> /dev/null
	within 5 gone "$@" || kill -9 "$@" 2> /dev/null
	wait "$@" 2> /dev/null
}
# SIPp would end its calls before it ends.
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
	$AS test -r "$PRELOAD" && $AS test -d "$root/usr" ||
		{ echo "user 65534 cannot read $PRELOAD or $root" >&2; return 1; }
}

# wire FILE ELSE: how the data went, by the counters in FILE: RC if bytes went in FPDUs, UD if messages went in frames,
# else ELSE.
wire() {
	if grep -q 'sock_stream_tx=[1-9]' "$1"; then
		echo RC
	elif grep -q 'sock_tx_framed=[1-9]' "$1"; then
		echo UD
	else
		echo "$2"
	fi
}
# way NAME: the curve of a pair of programs, by how they ran and by $TMP/wire.NAME: how their bytes went.
way() {
	case $1 in
	interposed*) cat "$TMP/wire.$1" ;;
	record*) echo "$(< "$TMP/wire.$1") Write-Record" ;;
	*) echo "$(< "$TMP/wire.$1") without" ;;
	esac
}
# ways UNIT RATIO: compares the curves of UNIT.
ways() {
	compare "$1" "$2" UD RC UD
	compare "$1" "$2" "UD Write-Record" RC "UD Write-Record"
	compare "$1" "$2" "UDP without" "TCP without" "UDP of TCP without"
}
# live PID: prints the counters of a running process in the form of a process that ends.
live() {
	"$BUILD/bin/diw" stat "$1" --json 2> /dev/null |
		jq -r '.counters | to_entries | map("\(.key)=\(.value)") | join(" ")'
}
# row PLACE UNIT CURVE X Y: adds a row to ID.csv, unless Y is nan: nothing was measured.
row() { local IFS=,; [ "$5" = nan ] || echo "$*" >> "$CSV"; }
# compare UNIT RATIO A B NAME: adds curve NAME of unit RATIO, curve A of UNIT against curve B: "% less...", "% more...",
# or "%..." of curve B.
compare() {
	awk -F, -v unit="$1" -v ratio="$2" -v a="$3" -v b="$4" -v name="$5" '
		$2 == unit && $3 == a { n++; place[n] = $1; x[n] = $4; y[n] = $5 }
		$2 == unit && $3 == b { base[$1, $4] = $5 }
		END { for (i = 1; i <= n; i++) {
			r = base[place[i], x[i]]
			if (r > 0) printf "%s,%s,%s,%s,%.4g\n", place[i], ratio, name, x[i],
				100 * (ratio ~ /^% less/ ? 1 - y[i] / r : ratio ~ /^% more/ ? y[i] / r - 1 : y[i] / r)
		} }
	' "$CSV" > "$TMP/compared" && cat "$TMP/compared" >> "$CSV"
}

