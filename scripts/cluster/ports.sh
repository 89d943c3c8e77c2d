# shellcheck shell=bash
# ports.sh - part of cluster_check: one port of a NIC: its state, addresses, MTU and what keeps it from losing packets. Reads $fs, $nics, $active.

# check_mtu NAME PORT NETDEV: of the port by ibv_devinfo, else of its network interface.
check_mtu() {
	local name=$1 number=$2 net=$3 mtu most remedy
	remedy="on InfiniBand in the subnet manager's partition"
	[ -z "$net" ] || remedy="ip link set dev $net mtu 9000 here, on the peers and in the switches"
	if have ibv_devinfo; then
		read -r mtu most <<<"$(ibv_devinfo -d "$name" -i "$number" 2>/dev/null |
			awk '$1 == "active_mtu:" { a = $2 } $1 == "max_mtu:" { m = $2 } END { print a, m }')"
		case $mtu$most in *[!0-9]*) most='' ;; esac
		if [ -n "$most" ]; then
			if [ "$mtu" -lt "$most" ]; then
				fail "$name port $number: active MTU $mtu, though it can do $most: $remedy"
			else
				pass "$name port $number: MTU $mtu"
			fi
			return
		fi
	fi
	if [ -n "$net" ] && read_file "$fs/sys/class/net/$net/mtu"; then
		if [ "$line" -lt 4200 ]; then
			fail "$name port $number: $net has MTU $line, less than the 4096 bytes and headers of RoCE's largest: $remedy"
		else
			pass "$name port $number: $net has MTU $line"
		fi
	else
		skip "$name port $number: MTU: no ibv_devinfo here (Debian: ibverbs-utils)"
	fi
}

# check_gids NAME PORT DIRECTORY: the same order of merit as src/proxyless/nic.c.
check_gids() {
	local file index gid best='' merit=0 this
	for file in "$3"/gids/*; do
		index=${file##*/}
		read_file "$file"
		gid=$line
		read_file "$3/gid_attrs/types/$index"
		[ "$line" = "RoCE v2" ] || continue
		case $gid in
		'' | 0000:0000:0000:0000:0000:0000:0000:0000) continue ;;
		0000:0000:0000:0000:0000:ffff:*) this=3 ;;
		fe[89ab]?:*) this=1 ;;
		*) this=2 ;;
		esac
		[ "$this" -le "$merit" ] || { merit=$this; best="index $index, $gid"; }
	done
	case $merit in
	0) fail "$1 port $2 has no RoCE v2 address: give its network interface an IP address (show_gids lists them)" ;;
	1) warn "$1 port $2: only a link-local RoCE v2 address ($best): routers drop it; give its network interface an IP address" ;;
	*) pass "$1 port $2: RoCE v2 address, $best" ;;
	esac
}

# check_lossless NAME NETDEV: warnings only: the switches' half cannot be seen from here. Marrow sends with traffic class 0, or MARROW_NIC_TRAFFIC_CLASS.
check_lossless() {
	local name=$1 net=$2 text priority='' paused='' trust='' dscp=$((${MARROW_NIC_TRAFFIC_CLASS:-0} >> 2))
	if have mlnx_qos && text=$(mlnx_qos -i "$net" 2>/dev/null); then
		trust=$(sed -n 's/.*[Tt]rust state: *//p' <<<"$text" | head -n 1)
		priority=$(sed -n "s/.*prio:\([0-7]\) dscp:\(.*,\)\{0,1\}$(printf %02d "$dscp"),.*/\1/p" <<<"$text" | head -n 1)
		priority=${priority:-$((dscp >> 3))} # where the map is not shown: the usual one
		paused=$(awk -v p="$priority" '$1 == "enabled" { print $(p + 2); exit }' <<<"$text")
	elif have dcb && text=$(dcb pfc show dev "$net" 2>/dev/null); then
		priority=$((dscp >> 3))
		case $text in *"$priority:on"*) paused=1 ;; esac
	else
		skip "$name: lossless settings of $net: neither mlnx_qos nor dcb answers; look at docs/cluster.md and at the switches"
		return
	fi
	if [ "$paused" = 1 ]; then
		pass "$name: $net pauses priority $priority (PFC), which has Marrow's packets (DSCP $dscp)"
	else
		warn "$name: $net does not pause priority $priority, which has Marrow's packets (DSCP $dscp): a full switch drops them, and a lost one can cost" \
			"a timeout of a second; PFC for that priority, here (mlnx_qos -i $net --pfc ...) and in the switches"
	fi
	case $trust in
	dscp | '') ;;
	*) warn "$name: $net trusts ${trust}, not DSCP: untagged RoCE v2 packets all go to one priority; mlnx_qos -i $net --trust dscp" ;;
	esac
}

# check_port NAME DIRECTORY
check_port() {
	local name=$1 number=${2##*/} state layer net='' remedy
	read_file "$2/state" && state=${line#*: }
	read_file "$2/link_layer" && layer=$line
	if [ "${state-}" != ACTIVE ]; then
		remedy="cable, the other end, ip link set dev ... up"
		[ "${layer-}" != InfiniBand ] || remedy="cable, the other end, a subnet manager (opensm or the switch's)"
		# Without a list Marrow leaves such a port out.
		if [ -n "$nics" ] || [ "$active" = 0 ]; then
			fail "$name port $number is ${state:-in an unknown state}, not ACTIVE: $remedy"
		else
			warn "$name port $number is ${state:-in an unknown state}: Marrow leaves it out; $remedy, or name the others in MARROW_NICS"
		fi
		return
	fi
	read_file "$2/rate"
	pass "$name port $number: ACTIVE, ${layer:-unknown link layer}, ${line:-unknown rate}"
	if [ "${layer-}" = Ethernet ]; then
		read_file "$2/gid_attrs/ndevs/0" && net=$line
		check_gids "$name" "$number" "$2"
		check_lossless "$name" "$net"
	elif read_file "$2/sm_lid" && [ $((line)) = 0 ]; then
		fail "$name port $number knows no subnet manager: start opensm, or the switch's"
	fi
	check_mtu "$name" "$number" "$net"
}
