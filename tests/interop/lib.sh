# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# A guest whose kernel runs iWARP by siw: functions that boot the guest, run commands in it, and reach its ports. Source
# this file after tests/system/lib.sh (which enters a network namespace), or where TMP and eventually() are defined.
#
#   guest_start [PORT...]    boots the guest. The host reaches the guest's listeners at GUEST4 and GUEST6, the guest
#                            reaches the host's at HOST4 and HOST6. With a tap device these are two ends of one network
#                            with IPv6. Without /dev/net/tun, or with GUEST_NET=nat, qemu's NAT connects them: it
#                            forwards only PORT... (TCP, from 127.0.0.1) and no IPv6, so GUEST6 and HOST6 are empty.
#                            HOST_DEV is the name that our libibverbs gives to the host's RDMA device for this network.
#   guest SCRIPT             runs a bash script in the guest, prints its output and returns its exit status (124 after
#                            GUEST_SECONDS, 125 when the guest does not answer). Several scripts may run at a time.
#   guest_listens PORT [far] waits until PORT has a TCP listener in the guest (in namespace far).
#   guest_free PORT [far]    waits until PORT has no listener.
#   siw_set [NAME=VALUE...]  sets switches of siw for later connections; the others get siw's defaults.
#   guest_stop               powers the guest off; GUEST_CONSOLE keeps the text of the console.
#
# The guest has siw0 on eth0, and siw_near on near0 (NEAR4, NEAR6). In the network namespace far it has siw_far on far0
# (FAR4, FAR6). near0 and far0 are the ends of a veth pair. "far COMMAND" runs a command in that namespace. "chroot
# /host PROGRAM" runs a program of the host; the guest can read the host's files, but not write them.

INTEROP=$(readlink -f -- "${INTEROP:-build/interop}")
NEAR4=192.0.2.1 NEAR6=2001:db8:2::1 FAR4=192.0.2.2 FAR6=2001:db8:2::2
GUEST_SECONDS=300
GUEST_CONSOLE=$TMP/console
GUEST_PID=

# guest_network PORT...: sets NETDEV for qemu, APPEND for the guest, the addresses, and AGENT, the address of the agent.
guest_network() {
	local port
	if [ "${GUEST_NET:-}" != nat ] && [ -n "${DIW_TEST_NS:-}" ] &&
		ip tuntap add dev diwtap mode tap 2> /dev/null; then
		HOST_DEV=diw_diwtap HOST4=198.51.100.1 GUEST4=198.51.100.2 HOST6=2001:db8:1::1 GUEST6=2001:db8:1::2
		ip addr add $HOST4/24 dev diwtap && ip addr add $HOST6/64 dev diwtap nodad &&
			ip link set diwtap up || return
		NETDEV=tap,id=net,ifname=diwtap,script=no,downscript=no
		APPEND="addr4=$GUEST4/24 addr6=$GUEST6/64"
		AGENT=$GUEST4/7
		return
	fi
	HOST_DEV=diw_lo HOST4=10.0.2.2 GUEST4=127.0.0.1 HOST6='' GUEST6=''
	NETDEV=user,id=net APPEND="addr4=10.0.2.15/24 gw=10.0.2.2" AGENT=127.0.0.1/7007
	for port in 7007:7 "$@"; do
		NETDEV+=,hostfwd=tcp:127.0.0.1:${port%:*}-:${port#*:}
	done
}

# guest_launch ACCELERATOR CPU: starts qemu.
#
# In emulation the guest's time stamp counter is the host's. On a busy machine the guest's kernel measures a wrong
# frequency, in one case seven times too high, and then all its clocks and timeouts are wrong. tsc_early_khz tells it
# the frequency.
guest_launch() {
	local clock=
	[ "$1" = kvm ] || clock="tsc=reliable tsc_early_khz=$("$INTEROP/tree/usr/bin/agent" tsc)"
	: > "$GUEST_CONSOLE"
	qemu-system-x86_64 -accel "$1" -cpu "$2" -M q35 -smp 2 -m 1024 -nodefaults -display none -no-reboot \
		-serial "file:$GUEST_CONSOLE" -kernel "$INTEROP/vmlinux" -initrd "$INTEROP/initrd" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr $clock $APPEND" \
		-netdev "$NETDEV" -device virtio-net-pci,netdev=net,romfile= \
		-virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
		> "$TMP/qemu" 2>&1 < /dev/null &
	GUEST_PID=$!
	disown                  # else the shell would report that it was killed
}

# guest_said MARK SECONDS: waits for a line on the console while qemu runs.
guest_said() {
	local until=$((SECONDS + $2))
	until grep -q "^$1" "$GUEST_CONSOLE"; do
		[ $SECONDS -lt $until ] && kill -0 "$GUEST_PID" 2> /dev/null || return 1
		sleep 0.05
	done
}

guest_gone() { ! kill -0 "$GUEST_PID" 2> /dev/null; }
guest_kill() {
	kill -9 "$GUEST_PID" 2> /dev/null
	eventually 10 guest_gone
}

# qemu may abort or the guest may hang although /dev/kvm exists. So the guest has 5 s for its first line. After a
# failure KVM is not tried again on this machine until its next boot.
guest_start() {
	local boot
	guest_network "$@" || return
	boot=$(< /proc/sys/kernel/random/boot_id)
	if [ -r /dev/kvm ] && [ -w /dev/kvm ] && [ "$(cat "$INTEROP/no-kvm" 2> /dev/null)" != "$boot" ]; then
		guest_launch kvm host
		GUEST_ACCEL=kvm
		guest_said @init 5 || { guest_kill; GUEST_ACCEL=; echo "$boot" > "$INTEROP/no-kvm"; }
	fi
	[ -n "${GUEST_ACCEL:-}" ] || { guest_launch tcg,thread=multi max; GUEST_ACCEL=tcg; }
	JOBS+=("$GUEST_PID")
	guest_said @ready 600 && eventually 10 guest true && return
	echo "the guest did not boot ($GUEST_ACCEL):"
	tail -n 20 "$TMP/qemu" "$GUEST_CONSOLE"
	return 1
}

guest() {
	local LC_ALL=C
	local script=$* agent line part='' empty='' status=125 until=$((SECONDS + GUEST_SECONDS + 10))
	{ exec {agent}<> "/dev/tcp/$AGENT"; } 2> /dev/null || { echo "the guest does not answer"; return 125; }
	printf '%d %d\n%s' "$GUEST_SECONDS" ${#script} "$script" >&"$agent"
	while [ $SECONDS -lt $until ] && ! guest_gone; do
		IFS= read -r -t 1 -u "$agent" line
		case $? in
		0) ;;
		1) break ;;
		*) part+=$line; continue ;;     # read timed out after a second
		esac
		line=$part$line part=
		[[ ! $line =~ ^@exit\ ([0-9]+)$ ]] || { status=${BASH_REMATCH[1]}; break; }
		# The agent starts a new line for its own output. So an empty last line does not belong to the script's
		# output.
		[ -n "$line" ] || { empty+=$'\n'; continue; }
		printf '%s%s\n' "$empty" "$line"
		empty=
	done
	printf %s "${empty%$'\n'}"
	exec {agent}>&-
	return "$status"
}

# In /proc/net/tcp state 0A is LISTEN. The sockets of siw appear there like others.
guest_listens() { guest_port '&&' "listens" "$@"; }
guest_free() { guest_port '||' "was given up" "$@"; }
guest_port() {
	guest "$(printf 'for n in {1..1200}; do
			%s cat /proc/net/tcp /proc/net/tcp6 | grep -qi ":%04x [0-9a-f:]* 0a " %s exit 0; sleep 0.05
		done; echo "port %d never %s"; exit 1' "${4:-}" "$3" "$1" "$3" "$2")"
}

# siw's own defaults: mpa_version 2, rtr_type 0xc000 (Write and Read), every other switch off.
siw_set() {
	local word script=
	for word in try_gso=N mpa_crc_required=N mpa_crc_strict=N peer_to_peer=N mpa_version=2 rtr_type=0xc000 "$@"; do
		script+="echo ${word#*=} > /sys/module/siw/parameters/${word%=*} || exit 1; "
	done
	guest "$script"
}

guest_stop() {
	[ -z "$GUEST_PID" ] || guest_gone || guest 'poweroff -f' > /dev/null
	[ -z "$GUEST_PID" ] || eventually 5 guest_gone || guest_kill
	GUEST_PID=
}
