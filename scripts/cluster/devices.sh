# shellcheck shell=bash
# devices.sh - part of cluster_check: this machine: its NICs, GPUs, what is between them, limits of processes. $fs stands before all paths; fills
# $devices, $gpus and $active.

counts() { [ -z "$nics" ] || case ",$nics," in *",$1,"*) ;; *) false ;; esac; }

devices=() gpus=() active=0
find_devices() {
	local place name driver vendor
	for place in "$fs"/sys/class/infiniband/*; do
		[ -e "$place" ] || continue
		name=${place##*/}
		driver=$(readlink "$place/device/driver") || driver=$name
		case ${driver##*/} in
		mlx5*) ! counts "$name" || devices+=("$name") ;;
		*) warn "$name is no mlx5 device: kernels can drive only those (ConnectX-4 and later)" ;;
		esac
	done
	for place in "$fs"/sys/bus/pci/devices/*; do
		read_file "$place/vendor"
		vendor=$line
		read_file "$place/class"
		case $vendor$line in
		0x10de0x0300* | 0x10de0x0302*) gpus+=("${place##*/}") ;;
		esac
	done
}

check_limits() {
	local file=$fs/proc/self/limits bytes files
	bytes=$(sed -n 's/^Max locked memory *\([^ ]*\).*/\1/p' "$file" 2>/dev/null)
	files=$(sed -n 's/^Max open files *\([^ ]*\).*/\1/p' "$file" 2>/dev/null)
	case $bytes in
	unlimited) pass "locked memory (ulimit -l): unlimited" ;;
	'') skip "locked memory: $file cannot be read" ;;
	*)
		local remedy="memlock unlimited in /etc/security/limits.conf, LimitMEMLOCK=infinity of the service, --ulimit memlock=-1 of the container"
		if [ "$bytes" -lt 134217728 ]; then
			fail "locked memory (ulimit -l) is limited to $((bytes / 1024)) KiB, and what a NIC reaches is locked: $remedy"
		else
			warn "locked memory (ulimit -l) is limited to $((bytes / 1024)) KiB: enough for few communicators; $remedy"
		fi
		;;
	esac
	case $files in
	unlimited) pass "open files (ulimit -n): unlimited" ;;
	'') skip "open files: $file cannot be read" ;;
	*)
		if [ "$files" -lt 1024 ]; then
			fail "open files (ulimit -n): $files; connections to all ranks and their memory need more: nofile in /etc/security/limits.conf"
		else
			pass "open files (ulimit -n): $files"
		fi
		;;
	esac
}

check_link_of() {
	local place=$1 what=$2 speed most width widest
	read_file "$place/current_link_speed" && speed=$line && read_file "$place/max_link_speed" && most=$line &&
		read_file "$place/current_link_width" && width=$line && read_file "$place/max_link_width" && widest=$line || return
	if [ "$speed" != "$most" ] || [ "$width" != "$widest" ]; then
		warn "$what: PCIe $speed x$width, though it can do $most x$widest: another slot, reseat it, or the BIOS's link settings"
	else
		pass "$what: PCIe $speed x$width"
	fi
}

check_nic() {
	local name=$1 place=$fs/sys/class/infiniband/$1 uverbs found='' port type numa gpu near=''
	read_file "$place/fw_ver" && pass "$name: firmware $line"
	for uverbs in "$place"/device/infiniband_verbs/*; do
		uverbs=$fs/dev/infiniband/${uverbs##*/}
		found=1
		if [ ! -e "$uverbs" ]; then
			fail "$name: ${uverbs#"$fs"} is missing: load ib_uverbs, and give containers --device=/dev/infiniband"
		elif [ ! -r "$uverbs" ] || [ ! -w "$uverbs" ]; then
			fail "$name: this user may not open ${uverbs#"$fs"}: its mode should be 0666 (udev rules of rdma-core)"
		else
			pass "$name: ${uverbs#"$fs"} may be opened"
		fi
	done
	[ -n "$found" ] || skip "$name: no infiniband_verbs in sysfs (is ib_uverbs loaded?)"
	for port in "$place"/ports/*; do
		[ ! -d "$port" ] || check_port "$name" "$port"
	done
	check_link_of "$place/device" "$name"
	if read_file "$place/device/iommu_group/type"; then
		type=$line
		case $type in
		identity) pass "$name: the IOMMU passes addresses through" ;;
		*) warn "$name: the IOMMU translates ($type): GPU memory may be out of reach or slow; iommu=pt on the kernel's command line, or off in the BIOS" ;;
		esac
	else
		pass "$name: no IOMMU in its way"
	fi
	read_file "$place/device/numa_node" && numa=$line || numa=-1
	for gpu in "${gpus[@]}"; do
		read_file "$fs/sys/bus/pci/devices/$gpu/numa_node" && [ "$line" = "$numa" ] && near=1
	done
	if [ ${#gpus[@]} -gt 0 ] && [ -z "$near" ]; then
		warn "$name is on NUMA node $numa, no GPU is: its traffic crosses CPUs; put it in a slot beside a GPU (marrow-topo shows the paths)"
	fi
	if have mlxconfig; then
		type=$(mlxconfig -d "$(basename "$(readlink -f "$place/device")")" q PCI_WR_ORDERING 2>/dev/null | awk '$1 == "PCI_WR_ORDERING" { print $2 }')
		case $type in
		*force_relax*) fail "$name: firmware relaxes the order of all writes, and flags could pass their data: mlxconfig -d ... set PCI_WR_ORDERING=0" ;;
		'') skip "$name: order of PCIe writes: mlxconfig does not answer (root is needed)" ;;
		*) pass "$name: order of PCIe writes as the memory's key says ($type)" ;;
		esac
	else
		skip "$name: order of PCIe writes: no mlxconfig here; the NIC self test shows gross reordering"
	fi
}

# Bridges that send what passes between two devices below them up to the root.
check_acs() {
	local place bridge bridges=' ' on='' unread=''
	for place in "${devices[@]/#/$fs/sys/class/infiniband/}" "${gpus[@]/#/$fs/sys/bus/pci/devices/}"; do
		[ -d "$place/device" ] && place=$place/device
		for bridge in $(bridges_above "$place"); do
			case $bridges in *" $bridge "*) ;; *) bridges="$bridges$bridge " ;; esac
		done
	done
	for bridge in $bridges; do
		if acs_control "$fs/sys/bus/pci/devices/$bridge/config"; then
			[ -z "$number" ] || [ $((number & 0x2c)) = 0 ] || on="$on $bridge"
		else
			unread=1
		fi
	done
	if [ -n "$on" ]; then
		fail "PCIe access control (ACS) redirects peer-to-peer traffic at$on: off in the BIOS, or as root for each: setpci -s BRIDGE ECAP_ACS+6.w=0"
	elif [ -n "$unread" ]; then
		skip "PCIe access control (ACS): only root reads it: sudo lspci -vvv | grep ACSCtl should show ReqRedir- CmpltRedir- everywhere"
	else
		pass "no PCIe access control (ACS) in the way of$bridges"
	fi
}

check_gpus() {
	local seen gpu start end size kernel open='' peermem='' versions params
	if have nvidia-smi; then
		seen=$(gpu_count)
		if [ "${seen:-0}" != ${#gpus[@]} ]; then
			warn "${#gpus[@]} NVIDIA devices on PCIe, ${seen:-0} GPUs in nvidia-smi -L: a driver that does not start them, or a container with a part"
		fi
		pass "GPUs: ${seen:-0}, driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
	else
		fail "there are ${#gpus[@]} NVIDIA GPUs, but no nvidia-smi: install the driver"
	fi
	for gpu in "${gpus[@]}"; do
		read -r start end _ < <(sed -n 2p "$fs/sys/bus/pci/devices/$gpu/resource" 2>/dev/null)
		[ -n "${end-}" ] || continue
		size=$(((end - start + 1) >> 20))
		if [ "$size" -le 256 ]; then
			warn "GPU $gpu: BAR1 of $size MiB: all that NICs and peers reach must fit; \"above 4G decoding\" and resizable BAR in the BIOS"
		else
			pass "GPU $gpu: BAR1 of $size MiB"
		fi
	done
	versions=$(cat "$fs/proc/driver/nvidia/version" 2>/dev/null)
	case $versions in *'Open Kernel Module'*) open=1 ;; esac
	read_file "$fs/proc/sys/kernel/osrelease" && kernel=$line
	{ [ -d "$fs/sys/module/nvidia_peermem" ] || [ -d "$fs/sys/module/nv_peer_mem" ]; } && peermem=1
	if [ -n "$open" ] && at_least "${kernel:-0}" 5.12; then
		pass "NICs reach GPU memory by dma-buf (open kernel module, Linux $kernel)"
	elif [ -n "$peermem" ]; then
		pass "NICs reach GPU memory by nvidia-peermem"
	else
		fail "neither dma-buf nor nvidia-peermem: NICs cannot reach GPU memory; modprobe nvidia-peermem, or the open kernel module of the GPU's driver" \
			"with Linux 5.12 or later (here: ${kernel:-unknown})"
	fi
	params=$(cat "$fs/proc/driver/nvidia/params" 2>/dev/null)
	case $params in
	*PeerMappingOverride=1*) pass "the GPU's driver lets kernels ring doorbells (PeerMappingOverride=1)" ;;
	*)
		params="options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1\" in /etc/modprobe.d, then reload the module"
		if [ "$(id -u)" = 0 ]; then
			warn "the GPU's driver lets only root's kernels ring doorbells (no PeerMappingOverride): $params"
		else
			fail "the GPU's driver does not let kernels ring doorbells (no PeerMappingOverride): $params"
		fi
		;;
	esac
}

# Exits with 77 if nothing can be done here.
check_local() {
	local name port
	find_devices
	if [ ${#devices[@]} = 0 ]; then
		say "skipped: $fs/sys/class/infiniband shows no mlx5 device${nics:+ of \"$nics\"} (NIC in lspci? mlx5_ib loaded? in a container: --device=/dev/infiniband)"
		exit 77
	fi
	wanted local || return 0
	for name in ${nics//,/ }; do
		[ -e "$fs/sys/class/infiniband/$name" ] || fail "there is no RDMA device named \"$name\"; there are: $(ls "$fs/sys/class/infiniband")"
	done
	for name in "${devices[@]}"; do
		for port in "$fs/sys/class/infiniband/$name"/ports/*; do
			read_file "$port/state" && [ "${line#*: }" = ACTIVE ] && active=$((active + 1))
		done
	done
	if have ldconfig; then
		for name in libibverbs.so.1 libmlx5.so.1; do
			case $(ldconfig -p 2>/dev/null) in
			*"$name "*) pass "$name is installed" ;;
			*) warn "$name is not in the loader's cache: install rdma-core (Debian: libibverbs1 and ibverbs-providers) unless LD_LIBRARY_PATH has it" ;;
			esac
		done
	fi
	check_limits
	for name in "${devices[@]}"; do
		check_nic "$name"
	done
	if [ ${#gpus[@]} = 0 ]; then
		skip "GPUs: none on PCIe: the host target only"
		return
	fi
	check_acs
	check_gpus
}
