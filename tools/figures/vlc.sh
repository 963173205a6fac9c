# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# VLC's figure, for tools/figures/run.

vlc_media() {
	env LD_LIBRARY_PATH="$(LIBRARIES)" "$(program ffmpeg)" -nostdin -v error -f lavfi \
		-i testsrc2=duration=60:size=640x480:rate=25 -f lavfi -i sine=duration=60 -c:v mpeg2video -b:v 2M \
		-g "${GOP:-12}" -c:a mp2 -shortest -f mpegts "$TMP/media.ts" && chmod 644 "$TMP/media.ts"
}

# startup HOW udp|http: ms from the receiver's start until it says that its buffer is full.
startup() {
	local begin sender receiver url=udp://@127.0.0.1:5004 out='#std{access=udp,mux=ts,dst=127.0.0.1:5004}'
	[ "$2" = udp ] || { url=http://127.0.0.1:8090/; out='#std{access=http,mux=ts,dst=127.0.0.1:8090/}'; }
	(use "$1" vlc -I dummy --no-lua --ignore-config --loop "$TMP/media.ts" --sout "$out" --sout-keep \
		> "$TMP/sender" 2>&1 < /dev/null) &
	sender=$!
	if [ "$2" = http ]; then within 20 listening 8090; else sleep 1; fi
	begin=${EPOCHREALTIME/./}
	(use "$1" vlc -vvv -I dummy --no-lua --ignore-config --network-caching=100 --vout dummy --aout dummy "$url" \
		> "$TMP/receiver" 2>&1 < /dev/null) &
	receiver=$!
	within 20 grep -q 'Stream buffering done' "$TMP/receiver" &&
		echo $(((${EPOCHREALTIME/./} - begin) / 1000)) >> "$3"
	live "$receiver" >> "$TMP/receiver"
	stop "$receiver" "$sender"
	WIRE=$(wire "$TMP/sender" "$([ "$2" = http ] && echo TCP || echo UDP)")
}

vlc_startup() {
	local round row
	as_nobody && vlc_media || return
	rm -f "$TMP"/startup.*
	for ((round = 0; round < ${ROUNDS:-5}; round++)); do
		for row in "interposed udp" "plain udp" "interposed http" "plain http"; do
			startup $row "$TMP/startup.${row/ /.}"
			echo "$WIRE" > "$TMP/wire.${row/ /.}"
		done
	done
	AS=
	for row in interposed.udp interposed.http plain.udp plain.http; do
		row lo ms "$(way "$row")" VLC "$(median "$TMP/startup.$row")"
	done
	compare ms "% less" UD RC UD
	compare ms "% more" UD "UDP without" "UD over UDP without"
}
