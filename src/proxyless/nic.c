/* nic.c - opening a device, its port and its address. */
#include "devices.h"
#include "inside.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READS = 16, MIN_SLOTS = 16, MAX_SLOTS = 32768 };

void mrw_nic_defaults(struct mrw_nic_config *config)
{
	*config = (struct mrw_nic_config){
		.gid_index = -1, .timeout = 18, .retries = 7, .rnr_retries = 7, .slots = 1024, .collapsed = 1};
}

/* With DEVX if the library, the device and the configuration have it. */
static enum marrow_status open_context(struct mrw_nic *nic, struct ibv_device *device)
{
	const struct mrw_verbs *v = nic->verbs;
	struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	const char *name = nic->info.name, *why = "libmlx5 has none";

	if (v->has_devx && nic->config.queues != MRW_QUEUES_VERBS) {
		nic->context = v->open_device(device, &attr);
		nic->devx = nic->context != NULL;
		why = nic->devx ? "" : strerror(errno);
	}
	if (!nic->devx && nic->config.queues == MRW_QUEUES_DEVX)
		return mrw_fail(MARROW_UNSUPPORTED, "%s: no device commands (DEVX): %s", name, why);
	if (!nic->context) {
		attr.flags = 0;
		nic->context = v->open_device(device, &attr);
		if (!nic->context) {
			int error = errno;

			return mrw_fail(MARROW_SYSTEM_ERROR, "opening %s failed: %s%s", name, strerror(error),
					mrw_open_advice(error));
		}
		if (nic->config.queues == MRW_QUEUES_AUTO)
			mrw_log(MRW_LOG_INFO, "%s: no device commands (DEVX): %s; queues are made by verbs", name, why);
	}
	return MARROW_SUCCESS;
}

static const char *state_text(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_DOWN:
		return "down: no cable, the other end is off, or its network interface is not up";
	case IBV_PORT_INIT:
		return "waiting for a subnet manager (is opensm or the switch's running?)";
	case IBV_PORT_ARMED:
		return "armed: the subnet manager has not finished";
	case IBV_PORT_ACTIVE_DEFER:
		return "active, but its link was lost";
	default:
		return "in no state that is known";
	}
}

static uint32_t speed_gbit(const struct ibv_port_attr *attr)
{
	/* active_width: one bit for each number of lanes; active_speed: one for each speed of a lane. */
	uint32_t lanes = attr->active_width == 1   ? 1
			 : attr->active_width == 2 ? 4
			 : attr->active_width == 4 ? 8
			 : attr->active_width == 8 ? 12
						   : 2;
	uint32_t tenths = 0;

	switch (attr->active_speed) {
	case 1:
		tenths = 25;
		break;
	case 2:
		tenths = 50;
		break;
	case 4:
	case 8:
		tenths = 100;
		break;
	case 16:
		tenths = 140;
		break;
	case 32:
		tenths = 250;
		break;
	case 64:
		tenths = 500;
		break;
	case 128:
		tenths = 1000;
		break;
	default:
		break;
	}
	return lanes * tenths / 10;
}

static enum marrow_status choose_port(struct mrw_nic *nic)
{
	const struct mrw_verbs *v = nic->verbs;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	int error = v->query_device(nic->context, &device);
	const char *name = nic->info.name;
	uint32_t number;

	if (error)
		return mrw_fail(MARROW_SYSTEM_ERROR, "%s: asking for its limits failed: %s", name, strerror(error));
	nic->info.max_queues = (uint32_t)device.max_qp;
	nic->reads_out = device.max_qp_init_rd_atom < READS ? (uint32_t)device.max_qp_init_rd_atom : READS;
	nic->reads_in = device.max_qp_rd_atom < READS ? (uint32_t)device.max_qp_rd_atom : READS;
	if (nic->config.port < 0 || nic->config.port > device.phys_port_cnt)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s has no port %d: its ports are 1 to %u", name,
				nic->config.port, device.phys_port_cnt);
	number = nic->config.port ? (uint32_t)nic->config.port : mrw_active_port(v, nic->context);
	if (!number)
		number = 1; /* its state is the reason */
	memset(&port, 0, sizeof port);
	error = v->query_port(nic->context, (uint8_t)number, (struct _compat_ibv_port_attr *)(void *)&port);
	if (error)
		return mrw_fail(MARROW_SYSTEM_ERROR, "%s: asking for the state of port %u failed: %s", name, number,
				strerror(error));
	if (port.state != IBV_PORT_ACTIVE)
		return mrw_fail(MARROW_SYSTEM_ERROR, "port %u of %s is not active but %s", number, name,
				state_text(port.state));
	nic->mtu = port.active_mtu;
	nic->info.port = number;
	nic->info.infiniband = port.link_layer != IBV_LINK_LAYER_ETHERNET;
	if (!nic->info.infiniband && nic->config.service_level > 7)
		return mrw_fail(MARROW_INVALID_ARGUMENT, "%s port %u is RoCE, where service levels go from 0 to 7, not %u (MARROW_NIC_SERVICE_LEVEL)", name,
				number, nic->config.service_level);
	nic->info.mtu = 128u << port.active_mtu;
	nic->info.speed_gbit = speed_gbit(&port);
	nic->info.lid = port.lid;
	nic->gids = (uint32_t)port.gid_tbl_len;
	return MARROW_SUCCESS;
}

/* How well an address does: RoCE v2 only, IPv4-mapped best, link-local worst. 0: not at all. */
static int gid_merit(const struct mrw_nic *nic, const struct ibv_gid_entry *entry)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	if (nic->info.infiniband)
		return 1;
	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 0;
	if (!memcmp(entry->gid.raw, mapped, sizeof mapped))
		return 3;
	return entry->gid.raw[0] == 0xfe && (entry->gid.raw[1] & 0xc0) == 0x80 ? 1 : 2;
}

static enum marrow_status choose_gid(struct mrw_nic *nic)
{
	bool asked = nic->config.gid_index >= 0;
	uint32_t first = asked ? (uint32_t)nic->config.gid_index : 0;
	uint32_t end = asked || nic->info.infiniband ? first + 1 : nic->gids;
	int best = 0;

	for (uint32_t i = first; i < end; i++) {
		struct ibv_gid_entry entry;
		/* Empty places of the table are errors too. */
		int error = nic->verbs->query_gid_ex(nic->context, nic->info.port, i, &entry, 0, sizeof entry);
		int merit = error ? 0 : gid_merit(nic, &entry);

		if (merit > best) {
			best = merit;
			nic->gid_index = i;
			memcpy(nic->info.gid, entry.gid.raw, sizeof nic->info.gid);
		}
	}
	if (best)
		return MARROW_SUCCESS;
	if (asked)
		return mrw_fail(MARROW_INVALID_ARGUMENT,
				"port %u of %s: GID index %u is empty or no RoCE v2 address (show_gids lists them)",
				nic->info.port, nic->info.name, first);
	return mrw_fail(MARROW_SYSTEM_ERROR, "port %u of %s has no %s", nic->info.port, nic->info.name,
			nic->info.infiniband ? "GID" : "RoCE v2 address: give its network interface an IP address");
}

static enum marrow_status make_domain(struct mrw_nic *nic)
{
	struct mlx5dv_pd pd;
	struct mlx5dv_obj object;

	memset(&pd, 0, sizeof pd);
	memset(&object, 0, sizeof object);
	nic->pd = nic->verbs->alloc_pd(nic->context);
	if (!nic->pd)
		return mrw_fail_errno(MARROW_SYSTEM_ERROR, "%s: making a protection domain failed", nic->info.name);
	object.pd.in = nic->pd;
	object.pd.out = &pd;
	if (nic->verbs->init_obj(&object, MLX5DV_OBJ_PD))
		return mrw_fail(MARROW_UNSUPPORTED, "%s: libmlx5 does not give the number of a protection domain away",
				nic->info.name);
	nic->pdn = pd.pdn;
	return MARROW_SUCCESS;
}

static enum marrow_status open_selected(struct mrw_nic **out, const struct mrw_devices *c, uint32_t device,
					const struct mrw_nic_config *config)
{
	struct mrw_nic *nic = calloc(1, sizeof *nic);
	enum marrow_status status;

	if (!nic)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for a NIC");
	nic->verbs = c->verbs;
	nic->config = *config;
	snprintf(nic->info.name, sizeof nic->info.name, "%s", mrw_devices_name(c, device));
	MRW_TRY_GOTO(open_context(nic, c->devices[device]));
	MRW_TRY_GOTO(choose_port(nic));
	MRW_TRY_GOTO(choose_gid(nic));
	MRW_TRY_GOTO(make_domain(nic));
	/* mrw_nic_trouble() never blocks. */
	if (fcntl(nic->context->async_fd, F_SETFL, fcntl(nic->context->async_fd, F_GETFL) | O_NONBLOCK)) {
		status = mrw_fail_errno(MARROW_SYSTEM_ERROR, "%s: setting its event descriptor up failed",
					nic->info.name);
		goto fail;
	}
	nic->info.devx = nic->devx;
	*out = nic;
	return MARROW_SUCCESS;
fail:
	mrw_nic_close(nic);
	return status;
}

enum marrow_status mrw_nic_open(struct mrw_nic **nic, const char *names, uint32_t index,
				const struct mrw_nic_config *config)
{
	struct mrw_devices c;
	uint32_t count, device = 0;
	enum marrow_status status;

	*nic = NULL;
	if (config->slots < MIN_SLOTS || config->slots > MAX_SLOTS || config->slots & (config->slots - 1))
		return mrw_fail(MARROW_INVALID_ARGUMENT,
				"a send queue of %u slots: it takes a power of two from %d to %d", config->slots,
				MIN_SLOTS, MAX_SLOTS);
	MRW_TRY(mrw_devices_open(&c));
	status = mrw_devices_select(&c, names, index, &count, &device);
	if (status == MARROW_SUCCESS && index >= count) {
		char all[MRW_NAMES_BYTES];

		status = mrw_fail(MARROW_INVALID_ARGUMENT,
				  "RDMA device number %u was asked for; %s%s%s admits %u (has a port gone down?); there are: %s", index,
				  names && names[0] ? "\"" : "", names && names[0] ? names : "an active mlx5 port",
				  names && names[0] ? "\"" : "", count, mrw_devices_names(&c, all));
	}
	if (status == MARROW_SUCCESS)
		status = open_selected(nic, &c, device, config);
	mrw_devices_close(&c);
	return status;
}

void mrw_nic_close(struct mrw_nic *nic)
{
	if (!nic)
		return;
	if (nic->context)
		(void)mrw_nic_place_queues(nic, NULL);
	if (nic->pd) {
		int error = nic->verbs->dealloc_pd(nic->pd);

		if (error)
			mrw_log(MRW_LOG_WARN, "%s: freeing the protection domain failed: %s", nic->info.name,
				strerror(error));
	}
	if (nic->context)
		nic->verbs->close_device(nic->context);
	free(nic);
}

void mrw_nic_get_info(const struct mrw_nic *nic, struct mrw_nic_info *info)
{
	*info = nic->info;
}

static void note_event(struct mrw_nic *nic, const struct ibv_async_event *event)
{
	const char *text = NULL, *of_queue = NULL;

	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		text = "the device has failed: it must be reset (see the kernel log)";
		break;
	case IBV_EVENT_PORT_ERR:
		if ((uint32_t)event->element.port_num == nic->info.port)
			text = "the port went down";
		break;
	case IBV_EVENT_PORT_ACTIVE:
		if ((uint32_t)event->element.port_num == nic->info.port)
			nic->trouble[0] = '\0';
		break;
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_GID_CHANGE: /* an address came or went: if it was ours, queue pairs will say so */
		mrw_log(MRW_LOG_INFO, "%s: a %s of port %d changed", nic->info.name,
			event->event_type == IBV_EVENT_LID_CHANGE ? "LID" : "GID", event->element.port_num);
		break;
	case IBV_EVENT_QP_FATAL:
		of_queue = "a queue pair failed";
		break;
	case IBV_EVENT_QP_REQ_ERR:
		of_queue = "a peer's request was invalid";
		break;
	case IBV_EVENT_QP_ACCESS_ERR:
		of_queue = "a peer's request named memory that it may not touch";
		break;
	case IBV_EVENT_CQ_ERR:
		of_queue = "a completion queue overran";
		break;
	default:
		break;
	}
	if (text)
		snprintf(nic->trouble, sizeof nic->trouble, "%s port %u: %s", nic->info.name, nic->info.port, text);
	if (of_queue)
		snprintf(nic->queue_trouble, sizeof nic->queue_trouble, "%s port %u: %s", nic->info.name, nic->info.port, of_queue);
}

static void take_events(struct mrw_nic *nic)
{
	struct ibv_async_event event;

	while (nic->verbs->get_async_event(nic->context, &event) == 0) {
		note_event(nic, &event);
		nic->verbs->ack_async_event(&event);
	}
}

const char *mrw_nic_trouble(struct mrw_nic *nic)
{
	take_events(nic);
	return nic->trouble[0] ? nic->trouble : nic->queue_trouble[0] ? nic->queue_trouble : NULL;
}

void mrw_nic_forget_queues(struct mrw_nic *nic)
{
	take_events(nic);
	nic->queue_trouble[0] = '\0';
}
