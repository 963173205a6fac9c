# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# VLC's figure, for tools/figures/run.

vlc_media() {
	env LD_LIBRARY_PATH="$(LIBRARIES)" "$(program ffmpeg)" -nostdin -v error -f lavfi \
		-i "testsrc2=duration=60:size=640x480:rate=25,noise=alls=30:allf=t" -f lavfi -i sine=duration=60 \
		-c:v mpeg2video -b:v "${BITS:-4M}" -maxrate "${BITS:-4M}" -bufsize 1M -g "${GOP:-12}" -c:a mp2 \
		-shortest -f mpegts "$TMP/media.ts" && chmod 644 "$TMP/media.ts"
}

# stamped FILE: appends standard input to FILE, with the time in us before the lines by which VLC says that it opens the
# stream and that its buffer is full.
stamped() {
	local line
	while IFS= read -r line; do
		case $line in
		*"creating access: udp:"* | *"creating access: http:"* | *"Stream buffering done"*)
			line="${EPOCHREALTIME/./} $line" ;;
		esac
		printf '%s\n' "$line"
	done >> "$1"
}

# startup HOW udp|http FILE: appends to FILE the ms until the buffer of a receiver is full, from when it opens the
# stream, and to FILE.all those from its start. LIMIT: the buffer was not full by then.
LIMIT=20
startup() {
	local begin sender receiver url=udp://@$NEAR:5004 out="#std{access=udp,mux=ts,dst=$NEAR:5004}"
	[ "$2" = udp ] || { url=http://$FAR:8090/; out="#std{access=http,mux=ts,dst=$FAR:8090/}"; }
	(IN=$FAR_IN use "$1" vlc -I dummy --no-lua --ignore-config --loop "$TMP/media.ts" --sout "$out" --sout-keep \
		> "$TMP/sender" 2>&1 < /dev/null) &
	sender=$!
	# The stream is under way: what VLC sends in the first moments depends on when it starts.
	sleep "${UNDER_WAY:-3}"
	[ "$2" = udp ] || IN=$FAR_IN within 20 listening 8090
	: > "$TMP/receiver"
	begin=${EPOCHREALTIME/./}
	(use "$1" vlc -vvv -I dummy --no-lua --ignore-config --network-caching="${CACHING:-1000}" --vout dummy \
		--aout dummy "$url" > >(stamped "$TMP/receiver") 2>&1 < /dev/null) &
	receiver=$!
	within $LIMIT grep -q 'Stream buffering done' "$TMP/receiver" || echo "$1 $2: not full in $LIMIT s" >&2
	awk -v begin="$begin" -v most=$((LIMIT * 1000)) -v all="$3.all" '
		/^[0-9]+ .*creating access/ && !from { from = $1 } /^[0-9]+ .*buffering done/ && !to { to = $1 }
		END { print to ? (to - from) / 1000 : most; print to ? (to - begin) / 1000 : most >> all }' \
		"$TMP/receiver" >> "$3"
	live "$receiver" >> "$TMP/receiver"
	stop "$receiver" "$sender"
	WIRE=$(wire "$TMP/sender" "$([ "$2" = http ] && echo TCP || echo UDP)")
}

vlc_startup() {
	local round at row rows=("interposed udp" "record udp" "interposed http" "plain udp" "plain http")
	as_nobody && vlc_media || return
	for at in $LINKS; do
		link "$at" || continue
		rm -f "$TMP"/startup.*
		for ((round = 0; round < ${ROUNDS:-5}; round++)); do
			for row in "${rows[@]}"; do
				startup $row "$TMP/startup.${row/ /.}"
				[ "$round" -gt 0 ] || echo "$WIRE" > "$TMP/wire.${row/ /.}"
			done
		done
		for row in "${rows[@]/ /.}"; do
			row "$PLACE" ms "$(way "$row")" VLC "$(median "$TMP/startup.$row")"
			row "$PLACE" "ms with VLC's own start" "$(way "$row")" VLC \
				"$(median "$TMP/startup.$row.all")"
		done
	done
	AS=
	ways ms "% less"
	compare ms "% more" UD "UDP without" "UD over UDP without"
}
