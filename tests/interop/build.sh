#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes the guest of the interoperability tests: vmlinux and initrd in INTEROP, which is build/interop unless set.
# usage: tests/interop/build.sh      exit 0: it is there; 1: it could not be built; 77: it can't be had here
#
# Nothing is installed. Debian's packages of group guest in tools/packages are downloaded, kept in INTEROP/deb and
# unpacked below INTEROP. An existing guest is kept, and needs no network.
set -u
PATH=$PATH:/usr/sbin:/sbin
cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." || exit 1
here=tests/interop
mkdir -p "${INTEROP:=build/interop}" || exit 1
INTEROP=$(readlink -f -- "$INTEROP")
deb=$INTEROP/deb work=$INTEROP/work root=$INTEROP/work/root kernel=$INTEROP/work/kernel tree=$INTEROP/tree

die() { echo "guest: $*" >&2; exit "${status:-1}"; }
cannot() { status=77 die "$*"; }
# In CI packages can be installed, so a test that lacks one has failed.
lacks() { [ -n "${CI:-}" ] || cannot "$*"; die "$*"; }
say() { echo "guest: $*"; }
DEBS=$INTEROP/apt APT_LOG=$INTEROP/apt.log
. tools/debs.sh

# download: packages of Debian name the newest packages of the kernel. RELEASE is the kernel's release
# ("6.1.0-56-amd64").
download() {
	local programs image headers
	programs=$(packages guest | grep -v '^linux-')
	image=$(depends linux-image-amd64) headers=$(depends linux-headers-amd64)
	[ -n "$image" ] && [ -n "$headers" ] || return
	RELEASE=${image#linux-image-}
	# shellcheck disable=SC2046  # names without blanks
	(cd "$deb" && rm -rf new && mkdir new && cd new && apt_get download $image $headers $(depends $headers) \
		$(depends linux-source) $(with_libraries $programs)) > "$APT_LOG" 2>&1 || return
	rm -f "$deb"/*.deb
	mv "$deb"/new/*.deb "$deb" && rmdir "$deb/new" && echo "$RELEASE" > "$deb/release"
}

get_packages() {
	mkdir -p "$deb"
	if [ -s "$deb/release" ] && cmp -s "$deb/packages" <(packages guest); then
		RELEASE=$(< "$deb/release")
		return
	fi
	say "downloading about 250 MB of packages, once"
	download || { fetch_lists && download; } || cannot "packages can't be downloaded: $(apt_reason)"
	packages guest > "$deb/packages"
}

unpack() {
	local file
	rm -rf "$work"
	mkdir -p "$root" "$kernel"
	for file in "$deb"/*.deb; do
		case ${file##*/} in
		linux-source-*)
			dpkg-deb --fsys-tarfile "$file" | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
				tar -xJ -C "$work" --strip-components=4 --wildcards '*/drivers/infiniband/sw/siw/*' ;;
		linux-*) dpkg -x "$file" "$kernel" ;;
		*) dpkg -x "$file" "$root" ;;
		esac || return
	done
}

# The options of siw are constants of its source. The build makes them parameters of the module, which siw reads at each
# connection. A test sets them in /sys/module/siw/parameters. The bits of rtr_type are those of RFC 6581: 0x8000 Write,
# 0x4000 Read.
open_switches() {
	local flag='try_gso|mpa_crc_required|mpa_crc_strict|peer_to_peer'
	sed -i -E "s/^(extern )?const (bool ($flag)\\b)/\\1\\2/
		s/^static __be16 rtr_type = .*/#include <linux\\/moduleparam.h>\\nstatic ushort rtr_bits = 0xc000;\\n\
module_param_named(rtr_type, rtr_bits, ushort, 0644);/
		s/\\|= rtr_type;/|= cpu_to_be16(rtr_bits);/" "$work"/siw/*.[ch]
	printf 'module_param(%s, bool, 0644);\n' ${flag//|/ } >> "$work/siw/siw_main.c"
	echo 'module_param(mpa_version, byte, 0644);' >> "$work/siw/siw_main.c"
	for flag in ${flag//|/ } rtr_bits; do
		! grep -Eq "const.*\\b$flag\\b" "$work"/siw/*.[ch] || return
		grep -q "\\b$flag\\b" "$work/siw/siw_cm.c" || return
	done
}

# No kernel of Debian contains siw, so siw is compiled from Debian's source with Debian's headers. The headers name each
# other by absolute paths.
build_siw() {
	local headers=$kernel/usr/src/linux-headers-$RELEASE
	open_switches || { echo "siw's source is not as it was"; return 1; }
	sed -i "s|/usr/src/|$kernel/usr/src/|" "$headers/Makefile"
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -C "$headers" M="$work/siw" CONFIG_RDMA_SIW=m modules || return
	mkdir -p "$kernel/lib/modules/$RELEASE/kernel/siw"
	objcopy --strip-debug "$work/siw/siw.ko" "$kernel/lib/modules/$RELEASE/kernel/siw/siw.ko"
}

# The uncompressed kernel, from the xz stream in the image: it boots a second sooner than a kernel that unpacks itself.
extract_vmlinux() {
	local image=$kernel/boot/vmlinuz-$RELEASE at
	at=$(LC_ALL=C grep -abom 1 $'\xfd7zXZ' "$image" | head -n 1 | cut -d : -f 1) && [ -n "$at" ] || return
	tail -c +$((at + 1)) "$image" | xz -dc --single-stream > "$INTEROP/vmlinux" 2> /dev/null
	readelf -h "$INTEROP/vmlinux" > /dev/null
}

# add_module NAME: puts the module into the initramfs and its list, after the modules that it depends on.
add_module() {
	local file name
	[[ $added != *" $1 "* ]] || return 0
	added+="$1 "
	file=$(find "$kernel/lib/modules/$RELEASE" -name "${1//[-_]/[-_]}.ko" | head -n 1)
	[ -n "$file" ] || { echo "no module $1"; return 1; }
	for name in $(tr '\0' '\n' < "$file" | sed -n 's/^depends=//p' | tr , ' '); do
		add_module "$name" || return
	done
	cp "$file" "$tree/modules/" && echo "${file##*/}" >> "$tree/modules/order"
}

add_modules() {
	local added=" " name
	mkdir -p "$tree/modules"
	for name in virtio_pci virtio_net 9pnet_virtio 9p veth sch_netem sch_tbf crc32c-intel rdma_ucm ib_uverbs siw; do
		add_module $name || return
	done
}

# loader ARGUMENT...: runs the guest's own dynamic loader with the guest's libraries.
loader() {
	local lib=$root/usr/lib/x86_64-linux-gnu
	"$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/lib/x86_64-linux-gnu:$lib:$lib/libibverbs" "$@"
}

# add_program FILE: adds a program and the libraries that it is linked with.
add_program() {
	local lib
	cp "$1" "$tree/usr/bin/" || return
	readelf -l "$1" | grep -q INTERP || return 0
	if loader --list "$1" | grep 'not found'; then
		return 1
	fi
	for lib in $(loader --list "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'); do
		cp -nL "$lib" "$tree/usr/lib/x86_64-linux-gnu/"
	done
}

add_programs() {
	local libs=$tree/usr/lib/x86_64-linux-gnu name file
	mkdir -p "$libs/libibverbs" "$tree"/usr/{bin,lib64} "$tree"/{proc,sys,dev,run,tmp,host,etc/libibverbs.d,var/run}
	ln -s bin "$tree/usr/sbin"
	for name in bin sbin lib lib64; do
		ln -s "usr/$name" "$tree/$name"
	done
	cp -L "$root/lib64/ld-linux-x86-64.so.2" "$tree/usr/lib64/"
	for name in busybox bash ip tc ss rdma nstat rping ucmatose cmtime rdma_client rdma_server \
		ibv_devices ibv_devinfo ib_{read,write,send}_{bw,lat}; do
		file=$(find "$root"/{,usr/}{,s}bin -name "$name" -type f 2> /dev/null | head -n 1)
		[ -n "$file" ] && add_program "$file" || { echo "no $name"; return 1; }
	done
	# busybox provides the other commands of the scripts.
	for name in $("$root/bin/busybox" --list); do
		[ -e "$tree/usr/bin/$name" ] || ln -s busybox "$tree/usr/bin/$name"
	done
	# pthread_exit() loads this library at run time.
	cp -L "$root/lib/x86_64-linux-gnu/libgcc_s.so.1" "$libs/" || return
	cp "$root"/usr/lib/x86_64-linux-gnu/libibverbs/libsiw-rdmav*.so "$libs/libibverbs/" &&
		echo "driver siw" > "$tree/etc/libibverbs.d/siw.driver"
}

fill_tree() {
	rm -rf "$tree"
	mkdir -p "$tree"
	add_programs && add_modules
}

make_initrd() {
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -static -o "$tree/usr/bin/agent" $here/agent.c || return
	cp $here/init "$tree/init" || return
	(cd "$tree" && find . | cpio -o -H newc -R 0:0 --quiet) > "$INTEROP/initrd"
}

# step WHAT COMMAND: runs a step. If the step fails, its output is shown.
step() {
	local begin=$SECONDS
	"$2" > "$INTEROP/build.log" 2>&1 || { tail -n 20 "$INTEROP/build.log" >&2; die "failed: $1"; }
	say "$1: $((SECONDS - begin)) s"
}

# made STAMP FILE...: these files have the contents that they had when STAMP was made.
made() { local stamp=$INTEROP/made.$1; shift; [ "$(cat "$stamp" 2> /dev/null)" = "$(cat "$@" | cksum)" ]; }
leave() { local stamp=$INTEROP/made.$1; shift; cat "$@" | cksum > "$stamp"; }

[ "$(uname -m)" = x86_64 ] || cannot "the guest's packages are for x86_64, this is $(uname -m)"
exec 9> "$INTEROP/lock"
flock 9
for tool in apt-get dpkg-deb; do
	command -v $tool > /dev/null || cannot "no $tool here: the guest is made of Debian's packages"
done
for tool in cpio gcc-12 xz objcopy qemu-system-x86_64; do
	command -v $tool > /dev/null || lacks "no $tool (tools/quickstart check-interop installs it)"
done
if ! made tree $here/build.sh <(packages guest); then
	rm -f "$INTEROP"/made.*
	get_packages
	step "unpacking" unpack
	step "compiling siw.ko for $RELEASE" build_siw
	step "extracting the kernel" extract_vmlinux
	step "choosing programs and modules" fill_tree
	rm -rf "$work"
	leave tree $here/build.sh <(packages guest)
fi
made initrd $here/agent.c $here/init "$INTEROP/made.tree" && exit
step "packing the initramfs" make_initrd
leave initrd $here/agent.c $here/init "$INTEROP/made.tree"
