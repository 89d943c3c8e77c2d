/* topo.h - the machine as plain structs, and pure functions on them: paths, NIC choice, rails, rings, trees.
 *
 * A machine is a set of nodes. CPUs (one a NUMA node) are the roots of the PCI forest; bridges (PCIe switches), GPUs and NICs
 * hang below them by `parent`; NVSwitches stand apart. Links (NVLink, C2C) run across. Node numbers index `nodes`; gpus, nics, ...
 * hold what is particular to a kind. Nothing is hidden: no pointers, no global state, no order but that of the arrays, so equal
 * machines give equal answers everywhere. What could not be found out is 0, -1 or MRW_UNKNOWN, and `notes` says so in words.
 *
 * Bandwidths are nominal, one direction, in MB/s (10^6 bytes): 0 is unknown. A struct mrw_topo is large (about half a MiB):
 * put it on the heap. */
#ifndef MRW_TOPO_H
#define MRW_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	MRW_TOPO_GPUS = 128, /* a rack of 72 GPUs under one NVLink domain is one machine */
	MRW_TOPO_NICS = 128,
	MRW_TOPO_CPUS = 128,
	MRW_TOPO_BRIDGES = 512,
	MRW_TOPO_NVSWITCHES = 64,
	MRW_TOPO_NODES = MRW_TOPO_GPUS + MRW_TOPO_NICS + MRW_TOPO_CPUS + MRW_TOPO_BRIDGES + MRW_TOPO_NVSWITCHES,
	MRW_TOPO_LINKS = 2048,
	MRW_TOPO_NOTES = 32,
	MRW_TOPO_DEPTH = 16,         /* nodes from a CPU down to a device */
	MRW_TOPO_CORES = 2048,       /* logical CPUs a host */
	MRW_TOPO_LANES = 64,         /* NVLinks of one link */
	MRW_TOPO_MAX_MB_S = 8000000, /* more is taken for a mistake */
	MRW_TOPO_GUESS_MB_S = 12000,
	MRW_TOPO_NAME_BYTES = 32,
	MRW_TOPO_TEXT_BYTES = 64,
	MRW_TOPO_NOTE_BYTES = 192,
	MRW_TOPO_FILE_BYTES = 8 << 20, /* of a recorded machine */
	MRW_TOPO_RINGS = 64,
	MRW_TOPO_PAIRS = 256,
	MRW_TOPO_REASON_BYTES = 128
};

enum mrw_topo_known { MRW_UNKNOWN, MRW_NO, MRW_YES };

/* X(id, "name") */
#define MRW_TOPO_KIND_LIST(X) \
	X(CPU, "cpu") \
	X(BRIDGE, "bridge") \
	X(GPU, "gpu") \
	X(NIC, "nic") \
	X(NVSWITCH, "nvswitch")

enum mrw_topo_kind {
#define MRW_X(id, name) MRW_TOPO_##id,
	MRW_TOPO_KIND_LIST(MRW_X)
#undef MRW_X
};

struct mrw_topo_node {
	enum mrw_topo_kind kind;
	uint16_t index;   /* in the array of its kind */
	int16_t parent;   /* -1: none. Always smaller than the node's own number: no cycle can be written */
	uint32_t up_mb_s; /* of the PCIe link to the parent */
	uint32_t line;    /* of the file it was read from, 0: none */
	char name[MRW_TOPO_NAME_BYTES]; /* unique in the machine */
	char bus[MRW_TOPO_NAME_BYTES];  /* PCI address dddd:bb:dd.f in lower case, "" unknown */
};

struct mrw_topo_cpu {
	uint16_t node;
	int32_t numa;  /* -1 unknown */
	uint32_t host; /* running operating systems, numbered: CPUs of different hosts share nothing but NVLink */
	char arch[MRW_TOPO_NAME_BYTES], vendor[MRW_TOPO_NAME_BYTES];
	uint64_t cores[MRW_TOPO_CORES / 64]; /* bit i: logical CPU i */
};

struct mrw_topo_bridge {
	uint16_t node;
	enum mrw_topo_known acs; /* on: traffic between its devices is sent up to the CPU and back */
};

struct mrw_topo_gpu {
	uint16_t node;
	int32_t cuda;        /* CUDA ordinal; -1: not visible to this process, or unknown */
	uint32_t sm;         /* compute capability: 90, 100; 0 unknown */
	int32_t mig;         /* slice of a GPU split by MIG; -1: a whole GPU */
	int32_t iommu_group; /* -1: none or unknown */
	uint64_t bar1_bytes; /* 0 unknown */
	char uuid[MRW_TOPO_TEXT_BYTES];
	char model[MRW_TOPO_TEXT_BYTES];
};

enum mrw_topo_layer { MRW_LAYER_UNKNOWN, MRW_LAYER_INFINIBAND, MRW_LAYER_ETHERNET };

/* One port of a NIC. Two ports may share one PCI address. */
struct mrw_topo_nic {
	uint16_t node;
	uint16_t port;      /* from 1 */
	uint32_t rate_mb_s; /* of the port */
	enum mrw_topo_layer layer;
	enum mrw_topo_known up;
	int32_t iommu_group;
	char gid[MRW_TOPO_TEXT_BYTES];
};

struct mrw_topo_nvswitch {
	uint16_t node;
};

enum mrw_topo_link_kind { MRW_LINK_NVLINK, MRW_LINK_C2C };

/* NVLinks between two GPUs or a GPU and an NVSwitch; C2C between a GPU and a CPU. Listed once, a < b. */
struct mrw_topo_link {
	enum mrw_topo_link_kind kind;
	uint16_t a, b; /* nodes */
	uint16_t lanes;
	uint32_t lane_mb_s;
};

struct mrw_topo {
	uint32_t nnodes, ncpus, nbridges, ngpus, nnics, nnvswitches, nlinks, nnotes;
	uint32_t between_cpus_mb_s; /* one CPU to another of its host; the assumed value is noted */
	enum mrw_topo_known links_known, virtual_machine; /* are NVLinks (or their absence) on record? */
	struct mrw_topo_node nodes[MRW_TOPO_NODES];
	struct mrw_topo_cpu cpus[MRW_TOPO_CPUS];
	struct mrw_topo_bridge bridges[MRW_TOPO_BRIDGES];
	struct mrw_topo_gpu gpus[MRW_TOPO_GPUS];
	struct mrw_topo_nic nics[MRW_TOPO_NICS];
	struct mrw_topo_nvswitch nvswitches[MRW_TOPO_NVSWITCHES];
	struct mrw_topo_link links[MRW_TOPO_LINKS];
	uint8_t p2p[MRW_TOPO_GPUS][MRW_TOPO_GPUS]; /* enum mrw_topo_known: may GPU i map memory of GPU j */
	uint8_t p2p_atomics[MRW_TOPO_GPUS][MRW_TOPO_GPUS];
	char notes[MRW_TOPO_NOTES][MRW_TOPO_NOTE_BYTES];
};

/* Why a machine was not taken. line: 0 where no line is to blame. */
struct mrw_topo_error {
	uint32_t line;
	char text[MRW_TOPO_NOTE_BYTES];
};

/* ---- Loading and writing (text.c, nccl.c, nccl_write.c, hwloc_xml.c, hwloc_write.c, load.c). Nothing is logged; on false *topo is undefined. ---- */

/* A recorded machine: our text form, NCCL's topology XML or hwloc's XML, told apart by their first bytes. A strict reading: what is malformed, twice there, unheard of or absurd is refused. */
bool mrw_topo_parse(struct mrw_topo *topo, const char *bytes, size_t nbytes, struct mrw_topo_error *error);
bool mrw_topo_load(struct mrw_topo *topo, const char *path, struct mrw_topo_error *error);
/* False on a write error. What is written is read back to an equal machine; NCCL's form has no place for ACS, MIG, P2P,
 * IOMMU groups, BAR sizes, UUIDs, notes, what no CPU is above, and names of NICs longer than 22 bytes; hwloc's none for those either, nor for
 * links, NVSwitches, models, hosts but the first, ports' speeds, second ports and slices, a CPU without cores (one is made up) or without a NUMA
 * number, a machine without CPUs (one is made up), bridges with nothing below, and names of GPUs and CPUs. */
bool mrw_topo_write_text(const struct mrw_topo *topo, FILE *file);
bool mrw_topo_write_nccl(const struct mrw_topo *topo, FILE *file);
bool mrw_topo_write_hwloc(const struct mrw_topo *topo, FILE *file);

/* ---- This machine (discover.c). ---- */

/* hwloc where built in, sysfs, NVML and CUDA where installed; each may be missing, and a note says what is unknown for it. Fails
 * only where what is there contradicts itself. Starts CUDA's driver, makes no context. sysfs: NULL for this machine; the root of a
 * copied tree to read that alone. */
bool mrw_topo_discover(struct mrw_topo *topo, const char *sysfs, struct mrw_topo_error *error);

/* ---- Lookups (machine.c). ---- */

const char *mrw_topo_kind_name(enum mrw_topo_kind kind);
/* Node with that name or PCI address, -1 if there is none. */
int32_t mrw_topo_find(const struct mrw_topo *topo, const char *name);
/* Node of the CPU above a node, -1 if its place is unknown. */
int32_t mrw_topo_cpu_of(const struct mrw_topo *topo, uint32_t node);
/* Reduces the machine to count GPUs, in the order given; theirs are the new numbers. False: a number is wrong or twice there. */
bool mrw_topo_keep_gpus(struct mrw_topo *topo, const uint32_t *gpus, uint32_t count);

/* ---- Paths (path.c). ---- */

/* Classes by rising latency: X(id, "short name", "what it is"). */
#define MRW_PATH_LIST(X) \
	X(SELF, "X", "itself") \
	X(NVLINK, "NVL", "NVLink") \
	X(NVSWITCH, "NVS", "NVLink through NVSwitch") \
	X(C2C, "C2C", "NVLink-C2C") \
	X(SWITCH, "PIX", "one PCIe switch") \
	X(SWITCHES, "PXB", "several PCIe switches") \
	X(HOST, "PHB", "the CPU's PCIe root") \
	X(CPUS, "SYS", "the link between CPUs") \
	X(NONE, "-", "no path but the network")

enum mrw_path_class {
#define MRW_X(id, name, text) MRW_PATH_##id,
	MRW_PATH_LIST(MRW_X)
#undef MRW_X
};

struct mrw_topo_path {
	enum mrw_path_class class;
	uint32_t hops; /* links on the way */
	uint32_t mb_s; /* the narrowest known of them; 0: none is known */
	bool guessed;  /* a link of unknown width is on it, or a device of unknown place at its end */
	bool redirected; /* by ACS, or for want of peer access through host memory: by way of the CPU although something nearer joins both */
};

/* The way that loads and stores of one device take to another, both nodes. Symmetric. */
struct mrw_topo_path mrw_topo_path(const struct mrw_topo *topo, uint32_t a, uint32_t b);
const char *mrw_path_name(enum mrw_path_class class);
const char *mrw_path_text(enum mrw_path_class class);

/* ---- NICs and rails (nics.c). ---- */

struct mrw_topo_pair {
	uint16_t gpu, nic; /* indices in gpus and nics */
	uint16_t sharers;  /* GPUs that use this NIC */
	struct mrw_topo_path path;
	char reason[MRW_TOPO_REASON_BYTES];
};

struct mrw_topo_pairing {
	uint32_t npairs;
	struct mrw_topo_pair pairs[MRW_TOPO_PAIRS]; /* by gpu, its first choice first */
};

/* NICs for each GPU. A GPU whose CPU has NICs uses those, any other GPU the NICs of its host. Within that: the least well
 * served GPU gets the most bandwidth (its path, its share of the NIC); then paths are short; then NICs are shared evenly; then by
 * order. NICs left over that are as near as the first go round again while there are enough for all. Ports that are down have no
 * part. */
void mrw_topo_pair_nics(const struct mrw_topo *topo, struct mrw_topo_pairing *pairing);

/* A rail: the NICs with one number on all hosts, and the GPUs that use them. */
struct mrw_topo_rails {
	uint32_t nrails;
	uint16_t nic[MRW_TOPO_NICS];         /* of rail r, index in nics, by first GPU that uses it */
	uint16_t gpu[MRW_TOPO_NICS];         /* the first GPU that uses it: it speaks for the rail where one GPU must */
	uint16_t rail_of_gpu[MRW_TOPO_GPUS]; /* of its first pair; UINT16_MAX: the GPU has no NIC */
};
void mrw_topo_rails(const struct mrw_topo *topo, const struct mrw_topo_pairing *pairing, struct mrw_topo_rails *rails);
/* Rails over hosts with rails_of_host[h] rails each: as many as the richest host has. Rail r is that host's own rail returned;
 * hosts with fewer use each of theirs for several. All hosts must have at least one. */
uint32_t mrw_topo_common_rails(const uint32_t *rails_of_host, uint32_t hosts);
uint32_t mrw_topo_local_rail(uint32_t rails_of_host, uint32_t rail);

/* ---- Rings (rings.c, ring_mixed.c). ---- */

struct mrw_topo_ring {
	uint32_t mb_s;                /* what each of its steps can carry while all rings run */
	enum mrw_path_class worst;    /* class of its worst step */
	uint8_t order[MRW_TOPO_GPUS]; /* GPU indices; order[i] sends to order[(i + 1) % ngpus] */
};

struct mrw_topo_rings {
	uint32_t nrings, ngpus;
	uint32_t mb_s; /* of all together: the bus bandwidth they can reach */
	bool best;     /* equals what a cut of the machine lets through: no rings can do better */
	struct mrw_topo_ring rings[MRW_TOPO_RINGS];
};

/* Rings through all GPUs that together use no link beyond its width, with the most bandwidth found. Where NVLinks alone make
 * a ring, they alone are used: PCIe is left to the NICs and the CPU. Links of unknown width count as MRW_TOPO_GUESS_MB_S. None for
 * fewer than two GPUs or where no path joins them. */
void mrw_topo_find_rings(const struct mrw_topo *topo, struct mrw_topo_rings *rings);
/* The host at a place (0 ... hosts - 1) of the ring over hosts along a rail. Rails begin at hosts spread evenly, so that roots and
 * first steps do not meet at one; odd rails run backwards. */
uint32_t mrw_topo_rail_host(uint32_t hosts, uint32_t rails, uint32_t rail, uint32_t place);

/* ---- Trees (trees.c). ---- */

enum { MRW_NOBODY = -1 };

struct mrw_topo_tree {
	int32_t parent;      /* MRW_NOBODY: the root */
	int32_t children[2]; /* MRW_NOBODY: none; a leaf has neither */
};

/* What rank sees of binary tree which (0 or 1) over ranks 0...n-1. Both have the least depth there is, and a rank is inner
 * (has children) in at most one of them: together they use every rank's both directions. Any n > 0. */
struct mrw_topo_tree mrw_topo_double_tree(uint32_t n, uint32_t which, uint32_t rank);

#endif
