# shellcheck shell=bash
# hosts.sh - part of cluster_check: other machines, by ssh.

# on_host HOST COMMAND...: words stay words.
on_host() {
	local host=$1
	shift
	ssh -n -o BatchMode=yes -o ConnectTimeout=10 "$host" "$(printf '%q ' "$@")"
}

# The part of each host, by ssh at the same time.
check_hosts() {
	local host status before id=0 here=() all=() steps='' variable
	for step in local topo self; do
		wanted "$step" && steps=$steps,$step
	done
	here=("$root/scripts/cluster_check" --local --bin "$bin" --port "${port:-29600}" --target "$target")
	[ -z "$nics" ] || here+=(--nics "$nics")
	for variable in "${!MARROW_NIC_@}"; do
		here=(env "$variable=${!variable}" "${here[@]}")
	done
	[ -z "$fs" ] || here+=(--root "$fs")
	for host in ${hosts//,/ }; do
		# A directory each: the file system may be one for all.
		on_host "$host" "${here[@]}" --log "$log/$host" --only "${steps:-,local}" >"$log/host-$host.log" 2>&1 &
		all+=($!)
	done
	before=$failed
	for host in ${hosts//,/ }; do
		status=0
		wait "${all[id]}" || status=$?
		id=$((id + 1))
		sed "s/^/$host: /" "$log/host-$host.log"
		case $status in
		0) pass "$host: its own part" ;;
		77) none=$((none + 1)); fail "$host has no RDMA device" ;;
		255) fail "$host: ssh does not get there without a password, or the host is off: ssh $host true" ;;
		*) fail "$host: its own part, exit status $status, see above" ;;
		esac
	done
	if [ "$none" = "$id" ]; then
		say "skipped: no host has an RDMA device"
		exit 77
	fi
	[ "$failed" = "$before" ] || say "the hosts' own parts show failures: look at those first"
	if [ -z "$ranks" ]; then
		ranks=$(sed -n 's/^ok: GPUs: \([0-9]*\),.*/\1/p' "$log/host-${hosts%%,*}.log")
		ranks=${ranks:-1}
		[ "$ranks" -gt 0 ] || ranks=1
		[ "$ranks" -le 16 ] || ranks=16
		[ $((ranks * id)) -le 64 ] || ranks=$((64 / id))
		[ "$ranks" -gt 0 ] || { fail "$id hosts: a communicator has at most 64 ranks"; return; }
	fi
	nranks=$((ranks * id))
}
