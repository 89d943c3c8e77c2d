/* config.c - ncclConfig_t of every version, as far as it is followed. */
#include "binding.h"

#include <stdio.h>
#include <string.h>

/* NCCL 2.30's, the longest known. A caller's structure is a beginning of it. */
struct wire_config {
	size_t size;
	unsigned int magic, version;
	int blocking, cga_cluster_size, min_ctas, max_ctas;
	const char *net_name;
	int split_share, traffic_class;
	const char *comm_name;
	int collnet_enable, cta_policy, shrink_share, nvls_ctas;                       /* 2.27 */
	int channels_per_net_peer, nvlink_centric_sched;                               /* 2.28 */
	int graph_usage_mode, rma_contexts;                                            /* 2.29 */
	int max_p2p_peers, graph_stream_ordering;                                      /* 2.30 */
};
_Static_assert(sizeof(struct wire_config) == 96 && offsetof(struct wire_config, blocking) == 16 &&
		       offsetof(struct wire_config, max_ctas) == 28 && offsetof(struct wire_config, split_share) == 40 &&
		       offsetof(struct wire_config, comm_name) == 48 && offsetof(struct wire_config, nvls_ctas) == 68 &&
		       offsetof(struct wire_config, graph_stream_ordering) == 92,
	       "layout of NCCL's configuration");

enum { UNDEFINED = NCCL_CONFIG_UNDEF_INT };
static const unsigned int config_magic = 0xcafebeef;

/* Bytes that a version has. */
static size_t bytes_of_version(unsigned int version)
{
	static const struct {
		unsigned int version;
		size_t bytes;
	} table[] = {{23000, 96}, {22900, 88}, {22800, 80}, {22700, 72}, {21800, 48}, {21700, 40}, {21400, 24}};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (version >= table[i].version)
			return table[i].bytes;
	return 0;
}

/* X(field, least, most): what NCCL accepts. */
#define RANGES(X) \
	X(blocking, 0, 1) \
	X(cga_cluster_size, 0, 8) \
	X(min_ctas, 1, INT_MAX) \
	X(max_ctas, 1, INT_MAX) \
	X(split_share, 0, 1) \
	X(collnet_enable, 0, 1) \
	X(cta_policy, 0, 3) \
	X(shrink_share, 0, 1) \
	X(nvls_ctas, 1, INT_MAX) \
	X(channels_per_net_peer, 1, INT_MAX) \
	X(nvlink_centric_sched, 0, 1) \
	X(graph_usage_mode, 0, 2)

static ncclResult_t check(const struct wire_config *c, const char *function)
{
#define X(field, least, most) \
	if (c->field != UNDEFINED && (c->field < (least) || c->field > (most))) \
		return nccl_fail(ncclInvalidArgument, "%s: config %s is %d: %d to %d, or NCCL_CONFIG_UNDEF_INT", function, #field, c->field, \
				 least, most);
	RANGES(X)
#undef X
	if (c->min_ctas != UNDEFINED && c->max_ctas != UNDEFINED && c->min_ctas > c->max_ctas)
		return nccl_fail(ncclInvalidArgument, "%s: config minCTAs is %d, above maxCTAs %d", function, c->min_ctas, c->max_ctas);
	return ncclSuccess;
}

/* Once a process: fields that ask for what there is no choice of. */
static void tell_ignored(const struct wire_config *c)
{
	static uint32_t told;
	char list[256] = "";
	size_t used = 0;
#define NAME(condition, name) \
	if (condition) \
		used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", name)
	NAME(c->cga_cluster_size != UNDEFINED, "cgaClusterSize");
	NAME(c->min_ctas != UNDEFINED && c->min_ctas > 1, "minCTAs");
	NAME(c->net_name != NULL, "netName");
	NAME(c->split_share == 1, "splitShare");
	NAME(c->traffic_class != UNDEFINED, "trafficClass");
	NAME(c->collnet_enable == 1, "collnetEnable");
	NAME(c->cta_policy != UNDEFINED && c->cta_policy != 0, "CTAPolicy");
	NAME(c->shrink_share == 1, "shrinkShare");
	NAME(c->nvls_ctas != UNDEFINED, "nvlsCTAs");
	NAME(c->channels_per_net_peer != UNDEFINED, "nChannelsPerNetPeer");
	NAME(c->max_p2p_peers != UNDEFINED, "maxP2pPeers");
#undef NAME
	if (used > 0 && !__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		nccl_log(DEBUG_WARN, "fields of ncclConfig_t that have no effect here: %s", list);
}

static ncclResult_t read_user(struct wire_config *c, const ncclConfig_t *user, const char *function)
{
	struct wire_config given;
	memset(&given, 0, sizeof given);
	memcpy(&given, user, offsetof(struct wire_config, blocking));
	size_t bytes = bytes_of_version(given.version);
	if (given.magic != config_magic)
		return nccl_fail(ncclInvalidArgument, "%s: config does not start with NCCL_CONFIG_INITIALIZER (magic 0x%x)", function, given.magic);
	if (bytes == 0)
		return nccl_fail(ncclInvalidArgument, "%s: config is of version %u: there was none before 2.14", function, given.version);
	if (given.size < bytes)
		return nccl_fail(ncclInvalidArgument, "%s: config of version %u has %zu bytes, not %zu: start from NCCL_CONFIG_INITIALIZER",
				 function, given.version, bytes, given.size);
	memcpy(c, user, bytes); /* later fields stay undefined */
	return check(c, function);
}

ncclResult_t nccl_config_parse(struct nccl_config *parsed, const ncclConfig_t *user, const struct nccl_config *inherited, const char *function)
{
	struct wire_config c = {0, 0, 0, UNDEFINED, UNDEFINED, UNDEFINED, UNDEFINED, NULL, UNDEFINED, UNDEFINED, NULL, UNDEFINED, UNDEFINED,
				UNDEFINED, UNDEFINED, UNDEFINED, UNDEFINED, UNDEFINED, UNDEFINED, UNDEFINED, UNDEFINED};
	const struct nccl_config defaults = {true, 0, ""};
	*parsed = inherited && !user ? *inherited : defaults;
	if (user) {
		ncclResult_t result = read_user(&c, user, function);
		if (result != ncclSuccess)
			return result;
		tell_ignored(&c);
	}
	if (c.blocking != UNDEFINED)
		parsed->blocking = c.blocking;
	if (c.max_ctas != UNDEFINED)
		parsed->max_ctas = c.max_ctas;
	if (c.comm_name)
		snprintf(parsed->name, sizeof parsed->name, "%s", c.comm_name);
	int blocking = nccl_env_int("NCCL_COMM_BLOCKING", -1), ctas = nccl_env_max_ctas(0);
	if (blocking == 0 || blocking == 1)
		parsed->blocking = blocking;
	if (ctas > 0)
		parsed->max_ctas = ctas;
	return ncclSuccess;
}

enum { MOST_CTAS = 64 }; /* of marrow_config.max_ctas; a higher cap caps nothing */

struct marrow_config nccl_config_native(const struct nccl_config *config, int device)
{
	struct marrow_config native = MARROW_CONFIG_INIT;
	nccl_env_config(&native);
	native.max_ctas = (uint32_t)(config->max_ctas > MOST_CTAS ? MOST_CTAS : config->max_ctas);
	if (device >= 0)
		native.device = (uint32_t)device + 1;
	return native;
}
