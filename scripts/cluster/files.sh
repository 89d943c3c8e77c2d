# shellcheck shell=bash
# files.sh - part of cluster_check: what files of the kernel say. Answers are left in $line and $number.

# read_file PATH: its first line in $line; empty, and false, if it cannot be read.
line=''
read_file() {
	line=''
	# The attribute of an empty place (a GID) opens and fails on reading: that line on stderr is no news.
	[ -r "$1" ] && { { read -r line <"$1" || [ -n "$line" ]; } 2>/dev/null; }
}
# at_least A B: is dotted version A at least B?
at_least() { [ "$(printf '%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# word FILE OFFSET BYTES: a little-endian number of PCI configuration space in $number.
number=0
word() {
	local text
	text=$(od -An -v -tu"$3" -j"$2" -N"$3" "$1" 2>/dev/null)
	number=${text//[^0-9]/}
	number=${number:-0}
}

# acs_control CONFIG: the control word of Access Control Services in $number, empty without it. False if the file ends before extended space.
acs_control() {
	local at=256 header steps=0 bytes
	bytes=$(wc -c <"$1" 2>/dev/null) || return 1
	# sysfs names 4096 bytes to everybody but gives 64 to all but root.
	[ "$(od -An -v -tu1 -j256 -N1 "$1" 2>/dev/null)" != '' ] && [ "$bytes" -ge 512 ] || return 1
	while [ "$at" -ge 256 ] && [ $((steps += 1)) -lt 64 ]; do
		word "$1" "$at" 4
		header=$number
		case $header in 0 | 4294967295) break ;; esac
		if [ $((header & 65535)) = 13 ]; then
			word "$1" $((at + 6)) 2
			return 0
		fi
		at=$((header >> 20))
	done
	number=''
}

# bridges_above DIRECTORY: PCI bridges between a device and the root complex, nearest last.
bridges_above() {
	local path part all=()
	path=$(readlink -f "$1") || return
	IFS=/ read -ra part <<<"${path%/*}"
	for path in "${part[@]}"; do
		case $path in
		????:??:??.? | ?????:??:??.?) all+=("$path") ;;
		esac
	done
	say "${all[*]-}"
}
