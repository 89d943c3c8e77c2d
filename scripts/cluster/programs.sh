# shellcheck shell=bash
# programs.sh - part of cluster_check: Marrow's own programs, on this machine, and over all ranks. Reads $bin, $log, $rank, $nranks, $meet, $target, $max; with
# $hosts, by ssh, $ranks on each. $tables are those that have one.

# program NAME: its path, nothing if there is none.
program() {
	local place
	for place in "$bin" "$bin"/tests/perf "$bin"/tools; do
		[ ! -x "$place/$1" ] || [ -d "$place/$1" ] || { say "$place/$1"; return; }
	done
}

# verdict NAME STATUS SECONDS FILE
verdict() {
	if [ "$2" = 0 ]; then
		pass "$1 ($3 s)"
		return
	fi
	result "$(tail -n 20 "$4")"
	[ "$2" != 124 ] || result "not done in time"
	fail "$1: exit status $2 after $3 s, see $4"
	return 1
}

check_topo() {
	local path
	path=$(program marrow-topo)
	if [ -z "$path" ]; then
		fail "marrow-topo: it is not in $bin"
	elif timeout 60 "$path" >"$log/topo.log" 2>&1; then
		pass "marrow-topo: see $log/topo.log"
	else
		verdict marrow-topo 1 0 "$log/topo.log"
	fi
}

# Two ranks that believe in two hosts: everything goes out of this host's NIC and comes back. With one GPU, on the host target: two processes that
# wait for each other on one GPU would take turns.
check_self() {
	local path start=$SECONDS status=0 where=$target me at pids=()
	path=$(program all_reduce_perf)
	if [ -z "$path" ]; then
		fail "NIC self test: no all_reduce_perf in $bin"
		return
	fi
	[ "${#gpus[@]}" -ge 2 ] || where=host
	me=$(uname -n)
	# By MARROW_RANK alone ranks do not know their place within the host: several may do this at once.
	at=$((${port:-29600} + 100 + ${rank:-0}))
	for id in 0 1; do
		MARROW_RANK=$id MARROW_NRANKS=2 MARROW_ROOT=127.0.0.1:$at MARROW_HOST_ID=$me-check$id timeout -k 10 180 \
			"$path" --target "$where" -b 8 -e 1M -f 8 -n 5 -c 1 >"$log/self$id.log" 2>&1 &
		pids[id]=$!
	done
	wait "${pids[1]}" || status=$?
	wait "${pids[0]}" || status=$?
	verdict "NIC self test through two ranks ($where)" "$status" $((SECONDS - start)) "$log/self0.log" || result "$(tail -n 5 "$log/self1.log")"
}

# run_all NAME PATH FLAGS...: the program as this rank, or as all ranks by ssh; output of rank 0, or of this one, in $log/NAME.log.
run_all() {
	local name=$1 status=0 host id=0 at all=() first shared variable
	shift
	turn=$((turn + 1))
	shared=(env "LD_LIBRARY_PATH=$LD_LIBRARY_PATH" "MARROW_TIMEOUT_MS=${MARROW_TIMEOUT_MS:-60000}")
	for variable in "${!MARROW_@}"; do
		case $variable in
		MARROW_RANK | MARROW_NRANKS | MARROW_ROOT | MARROW_HOST_ID | MARROW_TIMEOUT_MS) ;;
		*) shared+=("$variable=${!variable}") ;;
		esac
	done
	if [ -n "$rank" ]; then
		at=${meet%:*}:$((${meet##*:} + turn))
		timeout -k 10 300 "${shared[@]}" "MARROW_RANK=$rank" "MARROW_NRANKS=$nranks" "MARROW_ROOT=$at" "$@" >"$log/$name.log" 2>&1
		return
	fi
	first=${hosts%%,*}
	at=${first##*@}:$((${port:-29600} + turn))
	for host in ${hosts//,/ }; do
		for ((i = 0; i < ranks; i++, id++)); do
			on_host "$host" timeout -k 10 300 "${shared[@]}" "MARROW_RANK=$id" "MARROW_NRANKS=$nranks" "MARROW_ROOT=$at" "$@" \
				>"$log/$name.rank$id.log" 2>&1 &
			all+=($!)
		done
	done
	for ((i = 0; i < id; i++)); do
		wait "${all[i]}" || { status=$?; bad=$i; }
	done
	cp "$log/$name.rank0.log" "$log/$name.log"
	if [ "$status" != 0 ]; then
		say "rank $bad: $(tail -n 3 "$log/$name.rank$bad.log")"
	fi
	return "$status"
}

turn=0 bad=0 tables=()
check_perf() {
	local name path status start
	for name in "$@"; do
		path=$(program "${name}_perf")
		if [ -z "$path" ]; then
			fail "$name: no ${name}_perf in $bin"
			continue
		fi
		status=0 start=$SECONDS
		run_all "$name" "$path" --target "$target" -b 8 -e "$max" -f 8 -n 20 -c 1 || status=$?
		[ "$status" != 0 ] || [ "${rank:-0}" != 0 ] || grep -qE '^ +[0-9]' "$log/$name.log" || status=1
		if verdict "$name over $nranks ranks, checked" "$status" $((SECONDS - start)) "$log/$name.log"; then
			tables+=("$name")
		elif [ "$name" = all_reduce ]; then
			result "the way to the other hosts is broken: the rest is left out"
			return 1
		fi
	done
}

table() {
	say ""
	say "== $1: $nranks ranks, float32; times in us, bus bandwidth in GB/s"
	awk 'BEGIN { printf "%12s %10s %8s   %10s %8s\n", "bytes", "time", "GB/s", "in place", "GB/s" }
		/^ +[0-9]/ { printf "%12s %10s %8s   %10s %8s\n", $1, $6, $8, $10, $12 }' "$log/$1.log"
}
