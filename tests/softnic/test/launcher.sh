#!/usr/bin/env bash
# What the launcher promises: environment, exit statuses, nothing left behind. Arguments: marrow-softnic, the program "vanishing".
set -uo pipefail
tool=$1 vanishing=$2
failed=0

# Fabrics of processes that we started; others may be at work here too.
left() {
	while read -r pid; do
		[ ! -e "/dev/shm/marrow-softnic.$pid" ] || echo "/dev/shm/marrow-softnic.$pid"
	done <"$pids"
}

# check NAME EXPECTED ACTUAL
check() {
	if [ "$2" = "$3" ]; then
		echo "$1: ok"
	else
		echo "$1: $3 instead of $2"
		failed=$((failed + 1))
	fi
}

pids=$(mktemp)
trap 'rm -f "$pids"' EXIT

status_of() {
	"$@" >/dev/null 2>&1 &
	echo $! >>"$pids"
	wait $!
	echo $?
}

check "usage that is asked for" 0 "$(status_of "$tool" --help)"
check "usage is on standard output" "usage:" "$("$tool" --help 2>/dev/null | head -c 6)"
check "usage that is not asked for" 125 "$(status_of "$tool" --helpless)"
check "status 0" 0 "$(status_of "$tool" run -n 3 -- true)"
# shellcheck disable=SC2016
check "worst status" 5 "$(status_of "$tool" run -n 4 -- sh -c 'exit $((MARROW_RANK + 2))')"
# shellcheck disable=SC2016
check "a failure is worse than a skip" 1 "$(status_of "$tool" run -n 2 -- sh -c 'if [ $MARROW_RANK = 0 ]; then exit 77; fi; exit 1')"
# shellcheck disable=SC2016
check "a skip is worse than success" 77 "$(status_of "$tool" run -n 2 -- sh -c 'if [ $MARROW_RANK = 0 ]; then exit 77; fi')"
# shellcheck disable=SC2016
check "killed" 137 "$(status_of "$tool" run -n 2 -- sh -c 'if [ $MARROW_RANK = 1 ]; then kill -KILL $$; fi; exit 3')"
check "not found" 127 "$(status_of "$tool" run -- /nowhere/at/all)"
check "no command" 125 "$(status_of "$tool" run -n 2)"
check "bad fault" 125 "$(status_of "$tool" run --faults nonsense -- true)"
check "time is up" 137 "$(status_of "$tool" run -n 2 --timeout 1 -- sleep 20)"
# shellcheck disable=SC2016
check "environment" "0/5@host0 1/5@host0 2/5@host0 3/5@host1 4/5@host1 " \
	"$("$tool" run -n 5 --hosts 2 -- sh -c 'echo "$MARROW_RANK/$MARROW_NRANKS@$MARROW_HOST_ID"' | sort | tr '\n' ' ')"
# shellcheck disable=SC2016
check "names of hosts" "x y " "$("$tool" run -n 2 --host-ids x,y -- sh -c 'echo "$MARROW_HOST_ID"' | sort | tr '\n' ' ')"
check "a name for two hosts" 125 "$(status_of "$tool" run -n 4 --host-ids a,b,a,b -- true)"
check "and why" 1 "$("$tool" run -n 4 --host-ids a,b,a,b -- true 2>&1 | grep -c 'hosts 0 and 2 are both called "a": name each host once')"
check "a name that the default takes" 125 "$(status_of "$tool" run -n 2 --host-ids host1 --hosts 2 -- true)"
# shellcheck disable=SC2016
check "root" "127.0.0.1" "$("$tool" run -- sh -c 'echo "${MARROW_ROOT%:*}"')"
check "event of a NIC that vanishes" 0 "$(status_of "$tool" run --nics 2 --faults vanish@5 -- "$vanishing")"

# Interrupted: the launcher passes it on and cleans up.
"$tool" run -n 2 -- sleep 30 >/dev/null 2>&1 &
launcher=$!
echo $launcher >>"$pids"
sleep 0.5
kill -TERM $launcher
wait $launcher
check "interrupted" 143 $?
check "nothing is left in /dev/shm" "" "$(left)"

# Killed outright: its processes go with it, and the next one sweeps up.
"$tool" run -n 2 -- sleep 31.25 >/dev/null 2>&1 &
launcher=$!
echo $launcher >>"$pids"
sleep 0.5
kill -KILL $launcher
wait $launcher 2>/dev/null
sleep 0.2
check "no process outlives a killed launcher" "" "$(pgrep -f '^sleep 31.25$')"
"$tool" run -- true
check "the next one sweeps up" "" "$(left)"

# A process without launcher makes a fabric of its own.
shim=$(dirname "$tool")/libmarrow-softnic.so
if [ -z "${SOFTNIC_SANITIZED-}" ]; then
	check "without launcher" 0 "$(MARROW_SOFTNIC_NICS=2 MARROW_SOFTNIC_FAULTS=vanish@5 status_of env "LD_PRELOAD=$shim" "$vanishing")"
	check "nothing is left by it either" "" "$(left)"
fi
[ "$failed" = 0 ] || exit 1
