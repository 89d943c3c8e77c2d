/* start.c - marrow_comm_init_env(): a communicator from what launchers put into the environment. */
#include "comm.h"

#include "base/env.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_RANKS = 1 << 24 }; /* as for MARROW_NRANKS */

/* A launcher's number up to most; -1 if unset. */
static enum marrow_status foreign_int(const char *name, int64_t most, int64_t *value)
{
	const char *text = mrw_env_foreign(name);
	char *end;
	*value = -1;
	if (!text || !text[0])
		return MARROW_SUCCESS;
	*value = strtoll(text, &end, 10);
	if (*end || *value < 0 || *value > most)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s is \"%s\": expected a number from 0 to %lld", name, text, (long long)most);
	return MARROW_SUCCESS;
}

/* Who am I, and where is rank 0: Marrow's own variables, then torchrun's, then Open MPI's. */
struct launch_place {
	int64_t rank, nranks, local_rank;
	char root[300];
};

static enum marrow_status find_place(struct launch_place *p)
{
	int64_t port;
	memset(p, 0, sizeof *p);
	MRW_TRY(mrw_env_int(MRW_ENV_RANK, -1, &p->rank));
	MRW_TRY(mrw_env_int(MRW_ENV_NRANKS, -1, &p->nranks));
	snprintf(p->root, sizeof p->root, "%s", mrw_env_string(MRW_ENV_ROOT));
	p->local_rank = p->rank;
	if (p->rank >= 0 || p->nranks >= 0)
		return MARROW_SUCCESS;
	MRW_TRY(foreign_int("RANK", MOST_RANKS, &p->rank));
	MRW_TRY(foreign_int("WORLD_SIZE", MOST_RANKS, &p->nranks));
	MRW_TRY(foreign_int("LOCAL_RANK", MOST_RANKS, &p->local_rank));
	MRW_TRY(foreign_int("MASTER_PORT", 65534, &port));
	const char *master = mrw_env_foreign("MASTER_ADDR");
	if (p->rank >= 0 && p->nranks >= 0) {
		if (!p->root[0] && master && port >= 0)
			snprintf(p->root, sizeof p->root, strchr(master, ':') ? "[%s]:%lld" : "%s:%lld", master, (long long)port + 1);
		return MARROW_SUCCESS;
	}
	MRW_TRY(foreign_int("OMPI_COMM_WORLD_RANK", MOST_RANKS, &p->rank));
	MRW_TRY(foreign_int("OMPI_COMM_WORLD_SIZE", MOST_RANKS, &p->nranks));
	MRW_TRY(foreign_int("OMPI_COMM_WORLD_LOCAL_RANK", MOST_RANKS, &p->local_rank));
	return MARROW_SUCCESS;
}

static enum marrow_status init_env(struct marrow_comm **comm, const struct marrow_config *config)
{
	struct launch_place place;
	struct marrow_unique_id id;
	if (!comm)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_init_env: comm is NULL");
	*comm = NULL;
	mrw_env_check_names();
	MRW_TRY(find_place(&place));
	if (place.rank < 0 || place.nranks <= 0)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_init_env: set MARROW_RANK, MARROW_NRANKS and MARROW_ROOT=host:port (or start with "
				"torchrun or mpirun)");
	if (place.rank >= place.nranks)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_init_env: rank %lld of %lld: ranks are 0 to %lld", (long long)place.rank,
				(long long)place.nranks, (long long)place.nranks - 1);
	if (place.nranks > MRW_MAX_RANKS)
		return mrw_fail(MARROW_UNSUPPORTED, "marrow_comm_init_env: %lld ranks: at most %d", (long long)place.nranks, MRW_MAX_RANKS);
	if (place.nranks > 1) {
		if (!place.root[0])
			return mrw_fail(MARROW_INVALID_ARGUMENT, "marrow_comm_init_env: set MARROW_ROOT=host:port, where rank 0 shall listen");
		MRW_TRY(mrw_boot_make_env_id(&id, place.root, mrw_env_string(MRW_ENV_JOB), place.rank == 0));
	}
	enum marrow_status status = mrw_comm_create(comm, (uint32_t)place.nranks, place.nranks > 1 ? &id : NULL, (uint32_t)place.rank,
						(int32_t)(place.local_rank >= 0 ? place.local_rank : place.rank), config);
	if (status != MARROW_SUCCESS && place.nranks > 1)
		mrw_boot_drop_id(&id);
	return status;
}

enum marrow_status marrow_comm_init_env(struct marrow_comm **comm, const struct marrow_config *config)
{
	enum marrow_status status = init_env(comm, config);
	if (status != MARROW_SUCCESS)
		mrw_group_failed(status);
	return status;
}
