# lib.sh - what the scripts here share; source it. Sets $root and puts nvcc on PATH if the machine has it.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }

if ! have nvcc && [ -x /usr/local/cuda/bin/nvcc ]; then
	PATH=$PATH:/usr/local/cuda/bin
fi

# Installs Debian or Ubuntu packages. Returns 1, with words on stderr, if it cannot.
apt_install() {
	local sudo=() log
	if ! have apt-get; then
		say "missing here: $* (package names of Debian and Ubuntu); please install them" >&2
		return 1
	fi
	if [ "$(id -u)" != 0 ]; then
		if ! have sudo; then
			say "missing here: $*; please install them as root: apt-get install $*" >&2
			return 1
		fi
		sudo=(sudo)
	fi
	say "installing: $*"
	log=$(mktemp)
	# One unreachable list among many need not matter: the installation tells.
	[ -n "${apt_updated-}" ] || "${sudo[@]}" apt-get -qq update >"$log" 2>&1 || true
	apt_updated=1
	if "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >>"$log" 2>&1; then
		rm -f "$log"
	else
		tail -n 20 "$log" >&2
		rm -f "$log"
		say "could not install: $*" >&2
		return 1
	fi
}

# What every build needs.
install_build_tools() {
	local missing=()
	{ have cc && echo 'int main(void) { return 0; }' | cc -x c - -o /dev/null 2>/dev/null; } || missing+=(gcc libc6-dev)
	! have nvcc || have g++ || missing+=(g++)
	have meson || missing+=(meson)
	have ninja || missing+=(ninja-build)
	have pkg-config || missing+=(pkg-config)
	[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}" || return 1
	local version
	version=$(meson --version)
	if [ "$(printf '%s\n' 1.0.1 "$version" | sort -V | head -n 1)" != 1.0.1 ]; then
		say "Meson $version is too old: 1.0.1 is needed" >&2
		return 1
	fi
}

# What the tests need beyond it. Only cmocka is a must; without the rest some stages are skipped.
install_test_tools() {
	local missing=()
	pkg-config --exists cmocka || missing+=(libcmocka-dev)
	have python3 || missing+=(python3)
	[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}" || return 1
	missing=()
	{ pkg-config --exists libibverbs && pkg-config --exists libmlx5; } || missing+=(libibverbs-dev ibverbs-providers)
	have clang || missing+=(clang)
	pkg-config --exists hwloc || missing+=(libhwloc-dev)
	{ have mpirun && { pkg-config --exists ompi-c || pkg-config --exists mpi-c; }; } || missing+=(openmpi-bin libopenmpi-dev)
	[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}" || true
	if have clang && ! links clang -fsanitize=thread; then
		apt_install "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev" || true
	fi
}

# For the tests in a virtual machine; without them those are skipped.
install_guest_tools() {
	local missing=()
	have qemu-system-x86_64 || missing+=(qemu-system-x86)
	have busybox || missing+=(busybox-static)
	{ have ip && have rdma && have tc; } || missing+=(iproute2)
	[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}" || return 0
	[ -d build/rxe-kernel ] || ! have apt-get || python3 tests/rxe/kernel.py fetch || true
}

# links COMPILER FLAGS...: can it link a program so?
links() {
	echo 'int main(void) { return 0; }' | "$@" -x c - -o /dev/null 2>/dev/null
}

# runs PREFIX COMPILER FLAGS...: do such programs start, five times out of five? (Sanitizers and address randomisation.)
runs() {
	local prefix=$1 dir i
	shift
	dir=$(mktemp -d)
	echo 'int main(void) { return 0; }' | "$@" -x c - -o "$dir/probe" 2>/dev/null || { rm -r "$dir"; return 1; }
	for i in 1 2 3 4 5; do
		$prefix "$dir/probe" >/dev/null 2>&1 || { rm -r "$dir"; return 1; }
	done
	rm -r "$dir"
}

gpu_count() {
	have nvidia-smi && nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true
}

# The architectures of the GPUs here ("90", "80,90"), or 90.
gpu_arch() {
	local arch
	arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | grep -E '^[0-9]+$' | sort -un | paste -sd, -) || true
	say "${arch:-90}"
}

# configure DIR OPTIONS...: sets a build directory up, or brings it up to date.
configure() {
	local dir=$1
	shift
	if [ -f "$dir/build.ninja" ]; then
		meson setup --reconfigure "$dir" "$root" "$@"
	else
		rm -rf "$dir"
		meson setup "$dir" "$root" "$@"
	fi
}
