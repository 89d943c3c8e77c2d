/* env.h - the one table of environment variables; env.c holds the only getenv. README's table is made from it
 * (scripts/env_table). Unknown MARROW_* names are warned about once. */
#ifndef MRW_ENV_H
#define MRW_ENV_H

#include <marrow/types.h>

/* X(id, "NAME", kind, default text, min, max, help). kind: INT (decimal) or STRING. */
#define MRW_ENV_LIST(X) \
	X(RANK, "MARROW_RANK", INT, "", 0, 1 << 24, "rank of this process for marrow_comm_init_env()") \
	X(NRANKS, "MARROW_NRANKS", INT, "", 1, 1 << 24, "number of ranks for marrow_comm_init_env()") \
	X(ROOT, "MARROW_ROOT", STRING, "", 0, 0, "host:port (or [v6]:port) where the others reach rank 0, for marrow_comm_init_env()") \
	X(JOB, "MARROW_JOB", STRING, "", 0, 0, "any text, the same for all ranks of a job: ranks of other jobs that come to the same MARROW_ROOT are turned away") \
	X(HOST_ID, "MARROW_HOST_ID", STRING, "", 0, 0, "host identity; default boot id and network namespace") \
	X(TARGET, "MARROW_TARGET", STRING, "auto", 0, 0, "where protocol code runs: auto, host or cuda") \
	X(TIMEOUT_MS, "MARROW_TIMEOUT_MS", INT, "0", 0, 1LL << 40, "deadline of init and of every device wait; 0: 5 min for init, 30 min for waits") \
	X(ALGO, "MARROW_ALGO", STRING, "", 0, 0, "force an algorithm where it applies: oneshot, lines, twoshot, bulk (over several hosts: no rails), railshot, rail (over several hosts: rails), ring, tree, treeshot (several hosts only; tree: packets or chunks by size)") \
	X(TUNING, "MARROW_TUNING", STRING, "", 0, 0, "calibration table of this machine (perf programs: --calibrate); the same file for all ranks. Default: the cost model") \
	X(MAX_CTAS, "MARROW_MAX_CTAS", INT, "0", 0, 64, "most CUDA blocks (channels) a collective uses; 0: by occupancy") \
	X(SOCKET_IFNAME, "MARROW_SOCKET_IFNAME", STRING, "", 0, 0, "interface of the bootstrap sockets: prefix, or =exact") \
	X(NICS, "MARROW_NICS", STRING, "", 0, 0, "RDMA devices for ranks on other hosts (mlx5_0,mlx5_1), taken in turns; default: all with an active port, on GPUs the nearest") \
	X(RINGS, "MARROW_RINGS", STRING, "auto", 0, 0, "where GPU kernels and NICs have their queues: gpu, host (pinned memory), or auto: GPU memory where the NIC takes it, up to 32 MiB a communicator") \
	X(NIC_GID_INDEX, "MARROW_NIC_GID_INDEX", INT, "", 0, 255, "address of a NIC's port, by index; default: RoCE v2, IPv4 before IPv6; InfiniBand: 0") \
	X(NIC_PKEY_INDEX, "MARROW_NIC_PKEY_INDEX", INT, "0", 0, 65535, "partition key of a NIC's port, by index") \
	X(NIC_TRAFFIC_CLASS, "MARROW_NIC_TRAFFIC_CLASS", INT, "0", 0, 255, "traffic class of messages to other hosts; RoCE: its upper six bits are the DSCP") \
	X(NIC_SERVICE_LEVEL, "MARROW_NIC_SERVICE_LEVEL", INT, "0", 0, 15, "service level of messages to other hosts; RoCE: 0 to 7, the priority in a VLAN") \
	X(NIC_TIMEOUT, "MARROW_NIC_TIMEOUT", INT, "18", 1, 31, "what is not acknowledged in 4.096 us * 2^N is sent again") \
	X(NIC_RETRIES, "MARROW_NIC_RETRIES", INT, "7", 0, 7, "so often, before a peer is given up") \
	X(LOG, "MARROW_LOG", STRING, "warn", 0, 0, "error, warn, info or debug, and topics: select")

enum mrw_env {
#define MRW_X(id, name, kind, def, min, max, help) MRW_ENV_##id,
	MRW_ENV_LIST(MRW_X)
#undef MRW_X
	MRW_ENV_COUNT
};

/* Value of a STRING variable, its default if unset or empty; never NULL. */
const char *mrw_env_string(enum mrw_env id);
/* Value of an INT variable; fallback if unset or empty. MARROW_INVALID_ARGUMENT names the variable, the value and the range. */
enum marrow_status mrw_env_int(enum mrw_env id, int64_t fallback, int64_t *value);
/* A launcher's variable that is not ours (RANK, MASTER_ADDR, OMPI_...): NULL if unset. */
const char *mrw_env_foreign(const char *name);
/* Warns once a process about MARROW_* names that are not in the table. */
void mrw_env_check_names(void);
/* Row id of the table, for the manual and tests. */
struct mrw_env_row {
	const char *name, *kind, *fallback, *help;
	int64_t min, max;
};
const struct mrw_env_row *mrw_env_row(enum mrw_env id);

#endif
