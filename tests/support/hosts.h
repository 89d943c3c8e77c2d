/* hosts.h - tests whose ranks are on several emulated hosts: with MARROW_TEST_HOSTS=H (and MARROW_TEST_NICS=N, default 1) ranks fill hosts
 * "host0", "host1", ... in blocks, and mlx5_0 ... mlx5_(N-1) are host0's NICs, as `marrow-softnic run --hosts H --nics N` names them
 * for a single process. MARROW_TEST_ORDER=cyclic: rank r is on host r modulo H. Without them all ranks are on this host. */
#ifndef TEST_HOSTS_H
#define TEST_HOSTS_H

#include <marrow/marrow.h>

struct hosts_place {
	char host_id[16], nics[64];
};

/* Hosts of a run of nranks ranks: at least 1, at most nranks. */
uint32_t hosts_count(uint32_t nranks);
uint32_t hosts_of(uint32_t rank, uint32_t nranks);
/* Sets host and NICs of the rank in config, whose strings *place keeps. */
void hosts_place(struct hosts_place *place, uint32_t rank, uint32_t nranks, struct marrow_config *config);

#endif
