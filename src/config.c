/* config.c - what a communicator is asked to be: config over environment over default. */
#include "config.h"
#include "comm.h"
#include "network_rings.h"

#include "base/env.h"

#include <stdio.h>
#include <string.h>

#define MRW_MAX_TIMEOUT_MS (1ull << 40) /* as in the environment table: nanoseconds still fit */

enum marrow_status mrw_config_copy(struct marrow_config *config, const struct marrow_config *user)
{
	if (!user)
		return MARROW_SUCCESS;
	if (user->size == 0 || user->size > sizeof *config)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "config.size is %zu: start from MARROW_CONFIG_INIT of this library's header (%zu)",
				user->size, sizeof *config);
	memcpy(config, user, user->size);
	return MARROW_SUCCESS;
}

static enum marrow_status target_from_text(const char *text, enum marrow_target *target)
{
	if (strcmp(text, "auto") == 0)
		*target = MARROW_TARGET_AUTO;
	else if (strcmp(text, "host") == 0)
		*target = MARROW_TARGET_HOST;
	else if (strcmp(text, "cuda") == 0)
		*target = MARROW_TARGET_CUDA;
	else
		return mrw_fail(MARROW_INVALID_ARGUMENT, "MARROW_TARGET is \"%s\": use auto, host or cuda", text);
	return MARROW_SUCCESS;
}

enum marrow_status mrw_target_from_env(enum marrow_target *target)
{
	return target_from_text(mrw_env_string(MRW_ENV_TARGET), target);
}

/* Read once it is known that ranks are on several hosts; a mistake should not wait for that. */
static enum marrow_status check_network(void)
{
	struct mrw_nic_config nic;
	enum mrw_rings_place rings;
	MRW_TRY(mrw_network_config(&nic));
	return mrw_rings_choice(&rings);
}

enum marrow_status mrw_comm_configure(struct marrow_comm *comm, const struct marrow_config *user)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	const char *algo = mrw_env_string(MRW_ENV_ALGO), *host_id = mrw_env_string(MRW_ENV_HOST_ID);
	const char *ifname = mrw_env_string(MRW_ENV_SOCKET_IFNAME), *nics = mrw_env_string(MRW_ENV_NICS);
	int64_t ctas, timeout;
	MRW_TRY(mrw_config_copy(&config, user));
	MRW_TRY(mrw_target_from_env(&comm->init.target));
	if (config.target != MARROW_TARGET_AUTO)
		comm->init.target = config.target;
	if ((uint32_t)config.target > MARROW_TARGET_CUDA)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "config.target is %d: use enum marrow_target", (int)config.target);
	MRW_TRY(mrw_env_int(MRW_ENV_MAX_CTAS, 0, &ctas));
	MRW_TRY(mrw_env_int(MRW_ENV_TIMEOUT_MS, 0, &timeout));
	comm->max_ctas = config.max_ctas ? config.max_ctas : (uint32_t)ctas;
	if (comm->max_ctas > MRW_MAX_CHANNELS)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "config.max_ctas is %u: at most %u", comm->max_ctas, MRW_MAX_CHANNELS);
	comm->timeout_ms = config.timeout_ms ? config.timeout_ms : (uint64_t)timeout;
	if (comm->timeout_ms > MRW_MAX_TIMEOUT_MS)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "config.timeout_ms is %llu: at most %llu", (unsigned long long)comm->timeout_ms,
				(unsigned long long)MRW_MAX_TIMEOUT_MS);
	if (config.algo)
		algo = config.algo;
	comm->asked_algo = comm->forced_algo = algo[0] ? mrw_algo_from_name(algo) : -1;
	if (algo[0] && comm->asked_algo < 0)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "algorithm \"%s\": use oneshot, lines, twoshot, bulk, railshot, rail, ring, treeshot or tree "
				"(MARROW_ALGO, config.algo)", algo);
	if (config.host_id)
		host_id = config.host_id;
	if (strlen(host_id) >= sizeof comm->init.host_id)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "the host id is longer than %zu characters", sizeof comm->init.host_id - 1);
	snprintf(comm->init.host_id, sizeof comm->init.host_id, "%s", host_id);
	if (config.socket_ifname)
		ifname = config.socket_ifname;
	if (strlen(ifname) >= sizeof comm->init.ifname)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "the interface name is longer than %zu characters", sizeof comm->init.ifname - 1);
	snprintf(comm->init.ifname, sizeof comm->init.ifname, "%s", ifname);
	if (config.nics)
		nics = config.nics;
	if (strlen(nics) >= sizeof comm->init.nics)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "the list of NICs (config.nics, MARROW_NICS) is longer than %zu characters",
				sizeof comm->init.nics - 1);
	snprintf(comm->init.nics, sizeof comm->init.nics, "%s", nics);
	MRW_TRY(check_network());
	const char *tuning = mrw_env_string(MRW_ENV_TUNING);
	if (strlen(tuning) >= sizeof comm->init.tuning)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "the path in MARROW_TUNING is longer than %zu characters", sizeof comm->init.tuning - 1);
	snprintf(comm->init.tuning, sizeof comm->init.tuning, "%s", tuning);
	if (config.device > INT32_MAX)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "config.device is %u: 1 + the ordinal of a CUDA device, or 0", config.device);
	comm->init.device = (int32_t)config.device - 1;
	return MARROW_SUCCESS;
}
