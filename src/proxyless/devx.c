/* devx.c - queues made by device commands: rings and records in memory of the link's own, or in a part of a GPU's (queue_memory.c).
 *
 * Two blocks of pages a link: the send ring with its doorbell records behind it, and the completion ring with its. A completion ring has an
 * entry for each slot, so it cannot overrun. A collapsed one is as large although only its first entry is ever written: that is how the
 * public users of collapsed rings have it. */
#include "inside.h"
#include "prm.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	USER_INDEX = 0x4d5257,
	NO_RECEIVES = 3,
	MIGRATED = 3,
	ATOMICS_OF_8 = 3,
	LOG_MESSAGE_MAX = 30,
	MIN_RNR_TIMER = 12,
	HOPS = 255
};

/* A command and its answer. */
struct command {
	uint8_t in[MRW_PRM_COMMAND_BYTES], out[MRW_PRM_SHORT_BYTES];
};

static uint8_t *begin(struct command *c, enum mrw_prm_command opcode)
{
	memset(c, 0, sizeof *c);
	mrw_prm_set(c->in, MRW_PRM_OPCODE, opcode);
	return c->in + (opcode == MRW_PRM_CREATE_CQ ? MRW_PRM_CQC_AT : MRW_PRM_QPC_AT);
}

static uint32_t log_of(uint64_t power)
{
	return (uint32_t)__builtin_ctzll(power);
}

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t mrw_ring_bytes(const struct mrw_nic *nic)
{
	uint64_t page = page_bytes(), bytes = (uint64_t)nic->config.slots * MRW_WQEBB_BYTES;

	return (bytes + page - 1) / page * page;
}

uint64_t mrw_block_bytes(const struct mrw_nic *nic)
{
	return mrw_ring_bytes(nic) + page_bytes();
}

static uint8_t *block_new(const struct mrw_nic *nic)
{
	uint64_t bytes = mrw_block_bytes(nic);
	uint8_t *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return NULL;
	/* Copied on write, the NIC would keep the child's or the parent's page, whoever wrote second. */
	madvise(block, bytes, MADV_DONTFORK);
	return block;
}

/* What the GPU must reach of the host's. */
static void name_memory(struct mrw_link *link)
{
	uint64_t page = page_bytes(), ring = mrw_ring_bytes(link->nic);
	struct mrw_link_memory *m = &link->memory;

	mrw_pages_around(link->uar->reg_addr, 8, &m->doorbell.base, &m->doorbell.bytes);
	if (link->placed)
		return;
	m->sq.base = link->sq_block;
	m->cq.base = link->cq_block;
	m->sq.bytes = m->cq.bytes = ring;
	m->record.base = link->sq_block + ring;
	m->record.bytes = page;
	m->cq_record.base = link->cq_block + ring;
	m->cq_record.bytes = link->nic->config.collapsed ? 0 : page;
}

static bool refused(const struct mrw_link *link, char *why, const struct command *c, const char *what)
{
	int error = errno;
	uint32_t status = c ? mrw_prm_get(c->out, MRW_PRM_STATUS) : 0,
		 syndrome = c ? mrw_prm_get(c->out, MRW_PRM_SYNDROME) : 0;
	char limit[64];

	snprintf(
		why, MRW_WHY_BYTES,
		"%s: %s failed: %s (device status 0x%x, syndrome 0x%x); this process has %u queue pairs there, the device takes %u of all "
		"processes; locked-memory limit %s",
		link->nic->info.name, what, strerror(error), status, syndrome, link->nic->links,
		link->nic->info.max_queues, mrw_memlock_text(limit));
	return false;
}

/* A part of the memory where the NIC's queues are placed, as the host's copies are: nothing of who had it before. */
static bool place(struct mrw_link *link, char *why)
{
	const struct mrw_queue_memory *m = &link->nic->place.memory;
	uint64_t block = mrw_block_bytes(link->nic);

	link->placed = mrw_place_take(link->nic);
	if (!link->placed) {
		snprintf(why, MRW_WHY_BYTES, "%s: the memory for rings holds %u queue pairs, which are there", link->nic->info.name,
			 link->nic->place.parts);
		return false;
	}
	if (m->copy(m->arg, link->placed, link->sq_block, block) == MARROW_SUCCESS &&
	    m->copy(m->arg, link->placed + block, link->cq_block, block) == MARROW_SUCCESS)
		return true;
	snprintf(why, MRW_WHY_BYTES, "%s: preparing the rings of a queue pair: %s", link->nic->info.name, mrw_error_text());
	return false;
}

static bool make_memory(struct mrw_link *link, char *why)
{
	const struct mrw_verbs *v = link->nic->verbs;
	uint64_t block = mrw_block_bytes(link->nic);

	link->sq_block = block_new(link->nic);
	link->cq_block = block_new(link->nic);
	if (!link->sq_block || !link->cq_block)
		return refused(link, why, NULL, "mapping memory for a queue pair");
	memset(link->cq_block, 0xff, mrw_ring_bytes(link->nic)); /* no entry is valid */
	if (link->nic->place.umem) {
		if (!place(link, why))
			return false;
	} else {
		link->sq_umem = v->umem_reg(link->nic->context, link->sq_block, block, IBV_ACCESS_LOCAL_WRITE);
		if (!link->sq_umem)
			return refused(link, why, NULL, "registering a send ring");
		link->cq_umem = v->umem_reg(link->nic->context, link->cq_block, block, IBV_ACCESS_LOCAL_WRITE);
		if (!link->cq_umem)
			return refused(link, why, NULL, "registering a completion ring");
	}
	/* Uncached where the kernel gives such a page away: one store, one doorbell. */
	link->uar = v->alloc_uar(link->nic->context, MLX5DV_UAR_ALLOC_TYPE_NC);
	if (!link->uar)
		link->uar = v->alloc_uar(link->nic->context, MLX5DV_UAR_ALLOC_TYPE_BF);
	if (!link->uar)
		return refused(link, why, NULL, "allocating a page of doorbells (UAR)");
	return true;
}

/* Where a block lies for the device: a umem of its own from its begin, or a part of the one that has all. */
struct where {
	uint32_t umem;
	uint64_t offset;
};

static struct where find_block(const struct mrw_link *link, bool completions)
{
	const struct mrw_place *p = &link->nic->place;

	if (!link->placed)
		return (struct where){(completions ? link->cq_umem : link->sq_umem)->umem_id, 0};
	return (struct where){p->umem->umem_id, (uint64_t)(link->placed - p->memory.base) + (completions ? mrw_block_bytes(link->nic) : 0)};
}

static bool make_cq(struct mrw_link *link, char *why, uint32_t *number)
{
	const struct mrw_nic *nic = link->nic;
	struct command c;
	uint8_t *cqc = begin(&c, MRW_PRM_CREATE_CQ);
	struct where block = find_block(link, true);
	uint32_t eqn = 0;

	if (nic->verbs->query_eqn(nic->context, 0, &eqn))
		return refused(link, why, NULL, "asking for an event queue");
	mrw_prm_set(c.in, MRW_PRM_CQ_UMEM, block.umem);
	mrw_prm_set(c.in, MRW_PRM_CQ_UMEM_OFFSET, block.offset);
	mrw_prm_set(c.in, MRW_PRM_CQ_UMEM_VALID, 1);
	mrw_prm_set(cqc, MRW_PRM_CQC_RECORD_UMEM_VALID, 1);
	mrw_prm_set(cqc, MRW_PRM_CQC_RECORD_UMEM, block.umem);
	mrw_prm_set(cqc, MRW_PRM_CQC_RECORD_OFFSET, block.offset + mrw_ring_bytes(nic));
	mrw_prm_set(cqc, MRW_PRM_CQC_COLLAPSED, nic->config.collapsed != 0);
	mrw_prm_set(cqc, MRW_PRM_CQC_IGNORE_OVERRUN, nic->config.collapsed != 0);
	mrw_prm_set(cqc, MRW_PRM_CQC_LOG_SIZE, log_of(nic->config.slots));
	mrw_prm_set(cqc, MRW_PRM_CQC_LOG_PAGE_SIZE, log_of(page_bytes()) - 12);
	mrw_prm_set(cqc, MRW_PRM_CQC_UAR, link->uar->page_id);
	mrw_prm_set(cqc, MRW_PRM_CQC_EQN, eqn);
	link->cq_object = nic->verbs->obj_create(nic->context, c.in, sizeof c.in, c.out, sizeof c.out);
	if (!link->cq_object)
		return refused(link, why, &c, "making a completion queue");
	*number = mrw_prm_get(c.out, MRW_PRM_NUMBER);
	return true;
}

static bool make_qp(struct mrw_link *link, char *why, uint32_t cq_number)
{
	const struct mrw_nic *nic = link->nic;
	struct command c;
	uint8_t *qpc = begin(&c, MRW_PRM_CREATE_QP);
	struct where block = find_block(link, false);

	mrw_prm_set(c.in, MRW_PRM_QP_UMEM, block.umem);
	mrw_prm_set(c.in, MRW_PRM_QP_UMEM_OFFSET, block.offset);
	mrw_prm_set(c.in, MRW_PRM_QP_UMEM_VALID, 1);
	mrw_prm_set(qpc, MRW_PRM_QPC_MIGRATION, MIGRATED);
	mrw_prm_set(qpc, MRW_PRM_QPC_PD, nic->pdn);
	mrw_prm_set(qpc, MRW_PRM_QPC_UAR, link->uar->page_id);
	mrw_prm_set(qpc, MRW_PRM_QPC_USER_INDEX, USER_INDEX);
	mrw_prm_set(qpc, MRW_PRM_QPC_LOG_PAGE_SIZE, log_of(page_bytes()) - 12);
	mrw_prm_set(qpc, MRW_PRM_QPC_LOG_SQ_SIZE, log_of(nic->config.slots));
	mrw_prm_set(qpc, MRW_PRM_QPC_RQ_TYPE, NO_RECEIVES);
	mrw_prm_set(qpc, MRW_PRM_QPC_SEND_CQ, cq_number);
	mrw_prm_set(qpc, MRW_PRM_QPC_RECEIVE_CQ, cq_number);
	mrw_prm_set(qpc, MRW_PRM_QPC_RECORD_UMEM_VALID, 1);
	mrw_prm_set(qpc, MRW_PRM_QPC_RECORD_UMEM, block.umem);
	mrw_prm_set(qpc, MRW_PRM_QPC_RECORD_OFFSET, block.offset + mrw_ring_bytes(nic));
	link->qp_object = nic->verbs->obj_create(nic->context, c.in, sizeof c.in, c.out, sizeof c.out);
	if (!link->qp_object)
		return refused(link, why, &c, "making a queue pair");
	link->qpn = mrw_prm_get(c.out, MRW_PRM_NUMBER);
	return true;
}

/* A transition: 0, or an error number with c->out telling more. */
static int move(const struct mrw_link *link, struct command *c, size_t bytes)
{
	mrw_prm_set(c->in, MRW_PRM_NUMBER, link->qpn);
	return link->nic->verbs->obj_modify(link->qp_object, c->in, bytes, c->out, sizeof c->out)
		       ? (errno ? errno : EIO)
		       : 0;
}

static bool move_to_init(struct mrw_link *link, char *why)
{
	const struct mrw_nic *nic = link->nic;
	struct command c;
	uint8_t *qpc = begin(&c, MRW_PRM_RST2INIT_QP);

	mrw_prm_set(qpc, MRW_PRM_QPC_MIGRATION, MIGRATED);
	mrw_prm_set(qpc, MRW_PRM_QPC_REMOTE_READ, 1);
	mrw_prm_set(qpc, MRW_PRM_QPC_REMOTE_WRITE, 1);
	mrw_prm_set(qpc, MRW_PRM_QPC_REMOTE_ATOMIC, 1);
	mrw_prm_set(qpc, MRW_PRM_QPC_ATOMIC_MODE, ATOMICS_OF_8);
	mrw_prm_set(qpc + MRW_PRM_PATH_AT, MRW_PRM_PATH_PKEY_INDEX, nic->config.pkey_index);
	mrw_prm_set(qpc + MRW_PRM_PATH_AT, MRW_PRM_PATH_PORT, nic->info.port);
	errno = move(link, &c, sizeof c.in);
	return errno ? refused(link, why, &c, "moving a queue pair to INIT") : true;
}

bool mrw_devx_make(struct mrw_link *link, char why[MRW_WHY_BYTES])
{
	struct mrw_queue *queue = link->queue;
	uint64_t ring = mrw_ring_bytes(link->nic);
	uint32_t cq_number;

	if (!make_memory(link, why) || !make_cq(link, why, &cq_number) || !make_qp(link, why, cq_number) ||
	    !move_to_init(link, why)) {
		mrw_devx_free(link);
		return false;
	}
	name_memory(link);
	queue->sq = link->sq_block;
	queue->record = (uint32_t *)(void *)(link->sq_block + ring) + 1; /* the first is the receive queue's */
	queue->doorbell = link->placed ? &link->bell : link->uar->reg_addr;
	queue->cq = link->cq_block;
	queue->slots = link->nic->config.slots;
	queue->cq_record = link->nic->config.collapsed ? NULL : (uint32_t *)(void *)(link->cq_block + ring);
	queue->cq_slots = link->nic->config.collapsed ? 1 : queue->slots;
	return true;
}

/* The peer's MAC is the kernel's to find: it tells it with an address handle. */
static enum marrow_status find_mac(const struct mrw_link *link, const struct mrw_path *to, uint8_t mac[6])
{
	const struct mrw_nic *nic = link->nic;
	struct ibv_ah_attr attr;
	struct mlx5dv_obj object;
	struct mlx5dv_ah out;
	struct ibv_ah *handle;

	memset(&attr, 0, sizeof attr);
	memset(&object, 0, sizeof object);
	memset(&out, 0, sizeof out);
	attr.is_global = 1;
	attr.port_num = (uint8_t)nic->info.port;
	attr.sl = (uint8_t)nic->config.service_level;
	memcpy(attr.grh.dgid.raw, to->gid, sizeof attr.grh.dgid.raw);
	attr.grh.sgid_index = (uint8_t)nic->gid_index;
	attr.grh.flow_label = mrw_path_flow(link, to);
	attr.grh.hop_limit = HOPS;
	attr.grh.traffic_class = (uint8_t)nic->config.traffic_class;
	handle = nic->verbs->create_ah(nic->pd, &attr);
	object.ah.in = handle;
	object.ah.out = &out;
	if (!handle || nic->verbs->init_obj(&object, MLX5DV_OBJ_AH)) {
		enum marrow_status status =
			mrw_fail_errno(MARROW_SYSTEM_ERROR,
				       "%s: no route to rank %u's NIC: finding the MAC behind its address failed "
				       "(do the two ends ping each other on these interfaces?)",
				       nic->info.name, link->queue->peer);
		if (handle)
			nic->verbs->destroy_ah(handle);
		return status;
	}
	memcpy(mac, out.av->rmac, 6);
	nic->verbs->destroy_ah(handle);
	return MARROW_SUCCESS;
}

static enum marrow_status put_path(const struct mrw_link *link, const struct mrw_path *to, uint8_t *path)
{
	const struct mrw_nic *nic = link->nic;
	const struct mrw_nic_config *config = &nic->config;

	mrw_prm_set(path, MRW_PRM_PATH_PORT, nic->info.port);
	mrw_prm_set(path, MRW_PRM_PATH_PKEY_INDEX, config->pkey_index);
	if (to->global) {
		memcpy(path + MRW_PRM_PATH_GID_AT, to->gid, sizeof to->gid);
		mrw_prm_set(path, MRW_PRM_PATH_SOURCE_GID, nic->gid_index);
		mrw_prm_set(path, MRW_PRM_PATH_HOP_LIMIT, HOPS);
	}
	if (nic->info.infiniband) {
		mrw_prm_set(path, MRW_PRM_PATH_LID, to->lid);
		mrw_prm_set(path, MRW_PRM_PATH_SERVICE_LEVEL, config->service_level & 15);
		mrw_prm_set(path, MRW_PRM_PATH_GRH, to->global);
		mrw_prm_set(path, MRW_PRM_PATH_TRAFFIC_CLASS, to->global ? config->traffic_class & 255 : 0);
	} else {
		uint32_t flow = mrw_path_flow(link, to);
		uint8_t mac[6] = {0};

		MRW_TRY(find_mac(link, to, mac));
		mrw_prm_set(path, MRW_PRM_PATH_MAC_HIGH, (uint32_t)mac[0] << 8 | mac[1]);
		mrw_prm_set(path, MRW_PRM_PATH_MAC_LOW,
			    (uint32_t)mac[2] << 24 | (uint32_t)mac[3] << 16 | (uint32_t)mac[4] << 8 | mac[5]);
		mrw_prm_set(path, MRW_PRM_PATH_DSCP, config->traffic_class >> 2 & 63);
		mrw_prm_set(path, MRW_PRM_PATH_ETHERNET_PRIORITY, config->service_level & 7);
		/* RoCE v2 takes the upper quarter. A label is folded as the kernel does it, so both ways make one port of it. */
		mrw_prm_set(path, MRW_PRM_PATH_UDP_PORT, 0xc000u | ((flow ^ flow >> 14) & 0x3fff));
	}
	return MARROW_SUCCESS;
}

static enum marrow_status connect_failed(const struct mrw_link *link, const struct command *c, int error,
					 const char *what)
{
	errno = error;
	return mrw_fail_errno(MARROW_SYSTEM_ERROR, "%s: %s to rank %u failed (device status 0x%x, syndrome 0x%x)",
			      link->nic->info.name, what, link->queue->peer, mrw_prm_get(c->out, MRW_PRM_STATUS),
			      mrw_prm_get(c->out, MRW_PRM_SYNDROME));
}

enum marrow_status mrw_devx_connect(struct mrw_link *link, const struct mrw_path *to)
{
	const struct mrw_nic *nic = link->nic;
	struct command c;
	uint8_t *qpc = begin(&c, MRW_PRM_INIT2RTR_QP);
	int error;

	mrw_prm_set(qpc, MRW_PRM_QPC_MIGRATION, MIGRATED);
	mrw_prm_set(qpc, MRW_PRM_QPC_MTU, to->mtu);
	mrw_prm_set(qpc, MRW_PRM_QPC_LOG_MESSAGE_MAX, LOG_MESSAGE_MAX);
	mrw_prm_set(qpc, MRW_PRM_QPC_REMOTE_QPN, to->qpn);
	mrw_prm_set(qpc, MRW_PRM_QPC_NEXT_RECEIVE_PSN, to->psn);
	mrw_prm_set(qpc, MRW_PRM_QPC_MIN_RNR_TIMER, MIN_RNR_TIMER);
	mrw_prm_set(qpc, MRW_PRM_QPC_LOG_ATOMICS_IN, nic->reads_in ? 31 - (uint32_t)__builtin_clz(nic->reads_in) : 0);
	mrw_prm_set(qpc, MRW_PRM_QPC_REMOTE_READ, 1);
	mrw_prm_set(qpc, MRW_PRM_QPC_REMOTE_WRITE, 1);
	mrw_prm_set(qpc, MRW_PRM_QPC_REMOTE_ATOMIC, 1);
	mrw_prm_set(qpc, MRW_PRM_QPC_ATOMIC_MODE, ATOMICS_OF_8);
	MRW_TRY(put_path(link, to, qpc + MRW_PRM_PATH_AT));
	error = move(link, &c, sizeof c.in);
	if (error)
		return connect_failed(link, &c, error, "readying a queue pair to receive (RTR)");

	qpc = begin(&c, MRW_PRM_RTR2RTS_QP);
	mrw_prm_set(qpc, MRW_PRM_QPC_MIGRATION, MIGRATED);
	mrw_prm_set(qpc, MRW_PRM_QPC_RETRIES, nic->config.retries & 7);
	mrw_prm_set(qpc, MRW_PRM_QPC_RNR_RETRIES, nic->config.rnr_retries & 7);
	mrw_prm_set(qpc, MRW_PRM_QPC_NEXT_SEND_PSN, link->psn);
	mrw_prm_set(qpc, MRW_PRM_QPC_LOG_ATOMICS_OUT,
		    nic->reads_out ? 31 - (uint32_t)__builtin_clz(nic->reads_out) : 0);
	mrw_prm_set(qpc + MRW_PRM_PATH_AT, MRW_PRM_PATH_TIMEOUT, nic->config.timeout & 31);
	error = move(link, &c, sizeof c.in);
	return error ? connect_failed(link, &c, error, "readying a queue pair to send (RTS)") : MARROW_SUCCESS;
}

void mrw_devx_stop(struct mrw_link *link)
{
	struct command c;
	int error;

	begin(&c, MRW_PRM_2ERR_QP);
	error = move(link, &c, MRW_PRM_SHORT_BYTES);
	if (error)
		mrw_log(MRW_LOG_WARN, "%s: moving queue pair 0x%x to the error state failed: %s", link->nic->info.name,
			link->qpn, strerror(error));
}

static void destroyed(const struct mrw_link *link, int failure, const char *what)
{
	if (failure)
		mrw_log(MRW_LOG_WARN, "%s: destroying the %s of queue pair 0x%x failed: %s", link->nic->info.name, what,
			link->qpn, strerror(errno));
}

void mrw_devx_free(struct mrw_link *link)
{
	const struct mrw_verbs *v = link->nic->verbs;
	uint64_t block = mrw_block_bytes(link->nic);

	if (link->qp_object)
		destroyed(link, v->obj_destroy(link->qp_object), "device object");
	if (link->cq_object)
		destroyed(link, v->obj_destroy(link->cq_object), "completion queue");
	if (link->uar)
		v->free_uar(link->uar);
	if (link->cq_umem)
		destroyed(link, v->umem_dereg(link->cq_umem), "completion ring");
	if (link->sq_umem)
		destroyed(link, v->umem_dereg(link->sq_umem), "send ring");
	if (link->placed)
		mrw_place_give(link->nic, link->placed);
	if (link->cq_block)
		munmap(link->cq_block, block);
	if (link->sq_block)
		munmap(link->sq_block, block);
	link->sq_block = link->cq_block = link->placed = NULL;
	link->qp_object = link->cq_object = NULL;
	link->cq_umem = link->sq_umem = NULL;
	link->uar = NULL;
	memset(&link->memory, 0, sizeof link->memory);
}
