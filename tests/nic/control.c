/* control.c - the control plane above libraries that fail as told (fake.h): every call that can fail does once, nothing is left behind,
 * and what is said names the cause. Arguments: the fake libibverbs and libmlx5; "devx" if the latter has device commands, "devx_old" if not
 * all of them, or "none"; or "missing" and
 * libraries without their functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake.h"
#include "network.h"
#include "proxyless/nic.h"
#include "proxyless/prm.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(HAVE_UMEM_IN)
#include <infiniband/mlx5dv.h>
#define SAME(ours, theirs) _Static_assert(offsetof(struct mrw_umem_in, ours) == offsetof(struct mlx5dv_devx_umem_in, theirs), "rdma-core's ABI")
SAME(address, addr);
SAME(bytes, size);
SAME(access, access);
SAME(page_sizes, pgsz_bitmap);
SAME(mask, comp_mask);
SAME(dmabuf_fd, dmabuf_fd);
_Static_assert(sizeof(struct mrw_umem_in) == sizeof(struct mlx5dv_devx_umem_in) && MRW_UMEM_DMABUF == MLX5DV_UMEM_MASK_DMABUF, "rdma-core's ABI");
#endif

static struct fake *f;
static bool has_devx, has_umem_in; /* of libmlx5 */
static _Alignas(4096) uint8_t rings[2 * 2 * 8192]; /* two links of 64 slots; a GPU's, in a manner of speaking */
static int copied_back;
enum { DMABUF = 9, DMABUF_OFFSET = 3 * 65536 };

static void reset(void)
{
	assert_int_equal(f->live, 0);
	memset(f, 0, sizeof *f);
	f->error = ENOMEM;
	f->port_state[0] = IBV_PORT_ACTIVE;
	f->port_state[1] = IBV_PORT_ACTIVE;
	f->layer = IBV_LINK_LAYER_ETHERNET;
	f->mtu = IBV_MTU_4096;
	for (uint32_t i = 0; i < 4; i++) { /* link-local v1, v2; IPv4-mapped v1, v2; two empty places */
		f->gid_type[i] = i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
		f->gid[i][15] = (uint8_t)(i + 1);
		if (i < 2) {
			f->gid[i][0] = 0xfe;
			f->gid[i][1] = 0x80;
		} else {
			f->gid[i][10] = f->gid[i][11] = 0xff;
		}
	}
}

static struct mrw_nic_config defaults(enum mrw_queues queues)
{
	struct mrw_nic_config config;

	mrw_nic_defaults(&config);
	config.slots = 64;
	config.queues = queues;
	return config;
}

static void said(const char *words)
{
	if (!strstr(mrw_error_text(), words))
		fail_msg("\"%s\" is not in: %s", words, mrw_error_text());
}

static enum marrow_status copy(void *arg, void *to, const void *from, uint64_t bytes)
{
	bool back = (const uint8_t *)from >= rings && (const uint8_t *)from < rings + sizeof rings;

	copied_back += back;
	if (++f->calls == f->fail_at) {
		f->failed = back ? "copy back" : "copy";
		return mrw_fail(MARROW_CUDA_ERROR, "no copy");
	}
	assert_ptr_equal(arg, f);
	assert_true(back || ((uint8_t *)to >= rings && (uint8_t *)to + bytes <= rings + sizeof rings));
	memcpy(to, from, bytes);
	return MARROW_SUCCESS;
}

static struct mrw_queue_memory ring_memory(bool dmabuf)
{
	return (struct mrw_queue_memory){rings, sizeof rings, dmabuf ? DMABUF : -1, dmabuf ? DMABUF_OFFSET : 0, copy, f};
}

enum { OWN_PAGES, BY_ADDRESS, BY_DMABUF };

/* Everything that a rank does with a NIC, and back. place: where its rings are. */
static enum marrow_status whole_life_in(enum mrw_queues queues, int place, bool *devx)
{
	struct mrw_nic_config config = defaults(queues);
	struct mrw_link_address address;
	struct mrw_region region = {0};
	struct mrw_queue queue;
	struct mrw_link *link = NULL;
	struct mrw_nic *nic;
	static uint64_t memory[64];
	enum marrow_status status = mrw_nic_open(&nic, "mlx5_1,mlx5_0", 1, &config);

	struct mrw_queue_memory m = ring_memory(place == BY_DMABUF);

	if (status != MARROW_SUCCESS)
		return status;
	copied_back = 0;
	if (place != OWN_PAGES)
		status = mrw_nic_place_queues(nic, &m);
	if (status == MARROW_SUCCESS)
		status = mrw_region_new(nic, memory, sizeof memory, -1, &region);
	if (status == MARROW_SUCCESS)
		status = mrw_link_new(nic, 5, &queue, &link);
	if (status == MARROW_SUCCESS) {
		*devx = queue.cq_record == NULL;
		mrw_link_get_address(link, &address);
		status = mrw_link_connect(link, &address);
	}
	mrw_link_free(link);
	mrw_region_free(nic, &region);
	mrw_nic_close(nic);
	assert_int_equal(copied_back, 0); /* nothing was under way */
	return status;
}

static enum marrow_status whole_life(enum mrw_queues queues, bool *devx)
{
	return whole_life_in(queues, OWN_PAGES, devx);
}

static void every_call_fails_once_in(enum mrw_queues queues, int place)
{
	for (int n = 0;; n++) {
		bool devx = false;

		reset();
		f->fail_at = n;
		mrw_error_set_text("");
		enum marrow_status status = whole_life_in(queues, place, &devx);
		if (queues == MRW_QUEUES_DEVX && !has_devx) {
			assert_int_equal(status, MARROW_UNSUPPORTED);
			said("DEVX");
			break;
		}
		if (n == 0 || !f->failed) {
			assert_int_equal(status, MARROW_SUCCESS);
			assert_int_equal(devx, has_devx && queues != MRW_QUEUES_VERBS);
		} else if (status == MARROW_SUCCESS) {
			/* There was another way: verbs, another page of doorbells, GID or port; or it was on the way out. */
			static const char *const spare[] = {"mlx5dv_devx_obj_modify", "ibv_modify_qp",
							    "mlx5dv_devx_alloc_uar",  "_ibv_query_gid_ex",
							    "ibv_query_port",         "ibv_query_device"};
			bool excused = queues == MRW_QUEUES_AUTO && place == OWN_PAGES;

			for (size_t i = 0; i < sizeof spare / sizeof *spare; i++)
				excused |= !strcmp(f->failed, spare[i]);
			if (!excused)
				fail_msg("%s failed, and all went well", f->failed);
		} else {
			assert_true(mrw_error_text()[0] != '\0');
		}
		if (n > 0 && !f->failed)
			break;
	}
	reset();
}

static void every_call_fails_once(void **state)
{
	(void)state;
	for (int queues = MRW_QUEUES_AUTO; queues <= MRW_QUEUES_VERBS; queues++)
		every_call_fails_once_in((enum mrw_queues)queues, OWN_PAGES);
	for (int place = BY_ADDRESS; has_devx && place <= (has_umem_in ? BY_DMABUF : BY_ADDRESS); place++) {
		every_call_fails_once_in(MRW_QUEUES_AUTO, place);
		every_call_fails_once_in(MRW_QUEUES_DEVX, place);
	}
}

static void verbs_where_device_commands_fail(void **state)
{
	bool devx = true;

	(void)state;
	reset();
	f->no_devx_queues = true;
	assert_int_equal(whole_life(MRW_QUEUES_AUTO, &devx), MARROW_SUCCESS);
	assert_false(devx);
	reset();
	f->no_devx_open = true;
	assert_int_equal(whole_life(MRW_QUEUES_AUTO, &devx), MARROW_SUCCESS);
	assert_false(devx);
	if (!has_devx)
		return;
	assert_int_equal(whole_life(MRW_QUEUES_DEVX, &devx), MARROW_UNSUPPORTED);
	said("DEVX");
	reset();
	f->no_devx_queues = true;
	assert_int_equal(whole_life(MRW_QUEUES_DEVX, &devx), MARROW_SYSTEM_ERROR);
	said("rank 5");
	said("status 0xf");
	said("1234");
	reset();
}

static void refuse(const char *names, uint32_t index, const struct mrw_nic_config *config, enum marrow_status status,
		   const char *words)
{
	struct mrw_nic *nic;

	assert_int_equal(mrw_nic_open(&nic, names, index, config), status);
	assert_null(nic);
	said(words);
}

static void devices_and_ports(void **state)
{
	struct mrw_nic_config config = defaults(MRW_QUEUES_AUTO);
	struct mrw_nic *nic;
	struct mrw_nic_info info;
	uint32_t count;
	char list[64];

	(void)state;
	reset();
	assert_int_equal(mrw_nic_count("", &count), MARROW_SUCCESS);
	assert_int_equal(count, 2);
	assert_int_equal(mrw_nic_list(list, sizeof list), MARROW_SUCCESS);
	assert_string_equal(list, "mlx5_0,mlx5_1");
	assert_int_equal(mrw_nic_list(list, 13), MARROW_SUCCESS);
	assert_string_equal(list, "mlx5_0");
	assert_int_equal(mrw_nic_count("mlx5_1", &count), MARROW_SUCCESS);
	assert_int_equal(count, 1);
	assert_int_equal(mrw_nic_count("mlx5_7", &count), MARROW_INVALID_ARGUMENT);
	said("mlx5_7");
	said("mlx5_0, mlx5_1, other_0");
	refuse("mlx5_0,mlx5", 1, &config, MARROW_INVALID_ARGUMENT, "\"mlx5\"");
	refuse("other_0", 0, &config, MARROW_UNSUPPORTED, "other_0 is no mlx5 device");
	refuse("", 2, &config, MARROW_INVALID_ARGUMENT, "admits 2");
	config.port = 3;
	refuse("mlx5_0", 0, &config, MARROW_INVALID_ARGUMENT, "no port 3: its ports are 1 to 2");
	config.port = 0;
	config.slots = 48;
	refuse("mlx5_0", 0, &config, MARROW_INVALID_ARGUMENT, "power of two");
	config.slots = 64;

	/* The first port that is active, unless one is named. */
	f->port_state[0] = IBV_PORT_DOWN;
	assert_int_equal(mrw_nic_open(&nic, "mlx5_0", 0, &config), MARROW_SUCCESS);
	mrw_nic_get_info(nic, &info);
	assert_int_equal(info.port, 2);
	assert_int_equal(info.speed_gbit, 400);
	mrw_nic_close(nic);
	config.port = 1;
	refuse("mlx5_0", 0, &config, MARROW_SYSTEM_ERROR, "port 1 of mlx5_0 is not active but down");
	config.port = 0;
	f->port_state[1] = IBV_PORT_INIT;
	f->port_state[0] = IBV_PORT_INIT;
	refuse("mlx5_0", 0, &config, MARROW_SYSTEM_ERROR, "subnet manager");
	assert_int_equal(mrw_nic_count("", &count), MARROW_SUCCESS);
	assert_int_equal(count, 0);
	assert_int_equal(mrw_nic_list(list, sizeof list), MARROW_SUCCESS);
	assert_string_equal(list, "");
	reset();
	f->open_error = EACCES;
	refuse("mlx5_0", 0, &config, MARROW_SYSTEM_ERROR, "/dev/infiniband");
	reset();
}

static void opened_with_gid(const struct mrw_nic_config *config, uint8_t last)
{
	struct mrw_nic_info info;
	struct mrw_nic *nic;

	assert_int_equal(mrw_nic_open(&nic, "mlx5_0", 0, config), MARROW_SUCCESS);
	mrw_nic_get_info(nic, &info);
	assert_int_equal(info.gid[15], last);
	mrw_nic_close(nic);
}

/* What MARROW_NIC_* say is what NICs are opened with. */
static void variables(void **state)
{
	static const char *const bad[][2] = {{"MARROW_NIC_TIMEOUT", "0"}, {"MARROW_NIC_RETRIES", "8"}, {"MARROW_NIC_TRAFFIC_CLASS", "DSCP26"},
					     {"MARROW_NIC_GID_INDEX", "-1"}, {"MARROW_NIC_SERVICE_LEVEL", "16"}, {"MARROW_NIC_PKEY_INDEX", "65536"}};
	struct mrw_nic_config config, plain;

	(void)state;
	assert_int_equal(mrw_network_config(&config), MARROW_SUCCESS);
	mrw_nic_defaults(&plain);
	plain.collapsed = 0;
	assert_memory_equal(&config, &plain, sizeof config);
	setenv("MARROW_NIC_GID_INDEX", "5", 1);
	setenv("MARROW_NIC_PKEY_INDEX", "1", 1);
	setenv("MARROW_NIC_TRAFFIC_CLASS", "104", 1);
	setenv("MARROW_NIC_SERVICE_LEVEL", "3", 1);
	setenv("MARROW_NIC_TIMEOUT", "14", 1);
	setenv("MARROW_NIC_RETRIES", "2", 1);
	assert_int_equal(mrw_network_config(&config), MARROW_SUCCESS);
	assert_int_equal(config.gid_index, 5);
	assert_int_equal(config.pkey_index, 1);
	assert_int_equal(config.traffic_class, 104);
	assert_int_equal(config.service_level, 3);
	assert_int_equal(config.timeout, 14);
	assert_int_equal(config.retries, 2);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		setenv(bad[i][0], bad[i][1], 1);
		assert_int_equal(mrw_network_config(&config), MARROW_INVALID_ARGUMENT);
		said(bad[i][0]);
		unsetenv(bad[i][0]);
	}
}

/* Few are left: libibverbs would find no devices, ports without addresses, and never say why. */
static void no_descriptors(void **state)
{
	struct mrw_nic_config config = defaults(MRW_QUEUES_AUTO);
	struct rlimit before, limit;
	struct mrw_nic *nic;
	uint32_t count;
	int next;

	(void)state;
	reset();
	assert_false(getrlimit(RLIMIT_NOFILE, &before));
	next = dup(0);
	assert_true(next > 0);
	close(next);
	limit = before;
	limit.rlim_cur = (rlim_t)next + 2; /* at most: there may be some above */
	assert_false(setrlimit(RLIMIT_NOFILE, &limit));
	assert_int_equal(mrw_nic_count("", &count), MARROW_SYSTEM_ERROR);
	said("8 file descriptors to look at; 2 are left of the");
	said("ulimit -n");
	assert_int_equal(mrw_nic_open(&nic, "mlx5_0", 0, &config), MARROW_SYSTEM_ERROR);
	said("ulimit -n");
	assert_false(setrlimit(RLIMIT_NOFILE, &before));
	assert_int_equal(mrw_nic_count("", &count), MARROW_SUCCESS);
}

static void addresses(void **state)
{
	struct mrw_nic_config config = defaults(MRW_QUEUES_AUTO);

	(void)state;
	reset();
	opened_with_gid(&config, 4); /* IPv4-mapped, v2 */
	f->gid_type[3] = IBV_GID_TYPE_ROCE_V1;
	opened_with_gid(&config, 2); /* link-local, v2 */
	f->gid[5][15] = 6;
	f->gid[5][0] = 0x20;
	f->gid_type[5] = IBV_GID_TYPE_ROCE_V2;
	opened_with_gid(&config, 6); /* IPv6 */
	config.gid_index = 1;
	opened_with_gid(&config, 2);
	config.gid_index = 0;
	refuse("mlx5_0", 0, &config, MARROW_INVALID_ARGUMENT, "GID index 0 is empty or no RoCE v2 address");
	config.gid_index = 4;
	refuse("mlx5_0", 0, &config, MARROW_INVALID_ARGUMENT, "GID index 4");
	config.gid_index = -1;
	f->gid_type[1] = f->gid_type[5] = IBV_GID_TYPE_ROCE_V1;
	refuse("mlx5_0", 0, &config, MARROW_SYSTEM_ERROR, "no RoCE v2 address");
	f->layer = IBV_LINK_LAYER_INFINIBAND;
	f->gid_type[0] = IBV_GID_TYPE_IB;
	opened_with_gid(&config, 1);
	reset();
}

static void memory_that_cannot_be_registered(void **state)
{
	struct mrw_nic_config config = defaults(MRW_QUEUES_AUTO);
	struct mrw_region region;
	struct mrw_nic *nic;
	static uint64_t memory[8];
	static const struct {
		int error;
		const char *words;
	} cases[] = {{ENOMEM, "ulimit -l"}, {EFAULT, "nvidia-peermem"}, {EOPNOTSUPP, "dma-buf"}};

	(void)state;
	reset();
	assert_int_equal(mrw_nic_open(&nic, "mlx5_0", 0, &config), MARROW_SUCCESS);
	for (int i = 0; i < 3; i++) {
		f->fail_at = f->calls + 1;
		f->error = cases[i].error;
		assert_int_equal(mrw_region_new(nic, memory, sizeof memory, i == 2 ? 9 : -1, &region),
				 MARROW_SYSTEM_ERROR);
		said(cases[i].words);
		said("mlx5_0");
		mrw_region_free(nic, &region);
	}
	assert_int_equal(mrw_region_new(nic, memory, sizeof memory, -1, &region), MARROW_SUCCESS);
	assert_int_equal(region.rkey, 8); /* no relaxed ordering */
	mrw_region_free(nic, &region);
	mrw_nic_close(nic);
	reset();
}

/* Both ends of what was exchanged arrive in the queue pair. */
static void connections(void **state)
{
	(void)state;
	for (int infiniband = 0; infiniband < 2; infiniband++)
		for (int queues = MRW_QUEUES_DEVX; queues <= MRW_QUEUES_VERBS; queues++) {
			struct mrw_nic_config config = defaults((enum mrw_queues)queues);
			struct mrw_link_address peer;
			struct mrw_queue queue;
			struct mrw_link *link;
			struct mrw_nic *nic;

			if (queues == MRW_QUEUES_DEVX && !has_devx)
				continue;
			config.traffic_class = 104;
			config.service_level = 3;
			config.timeout = 14;
			config.retries = 2;
			reset();
			f->layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
			assert_int_equal(mrw_nic_open(&nic, "mlx5_0", 0, &config), MARROW_SUCCESS);
			assert_int_equal(mrw_link_new(nic, 3, &queue, &link), MARROW_SUCCESS);
			assert_int_equal(queue.peer, 3);
			mrw_link_get_address(link, &peer);
			assert_int_equal(peer.mtu, 4096);
			assert_string_equal(peer.device, "mlx5_0");
			assert_int_equal(peer.qpn, queues == MRW_QUEUES_DEVX ? 0x77 : 0x55);
			peer.infiniband = !peer.infiniband;
			assert_int_equal(mrw_link_connect(link, &peer), MARROW_MISMATCH);
			said("InfiniBand");
			said("RoCE");
			said("rank 3");
			peer.infiniband = !peer.infiniband;
			peer.mtu = 0;
			assert_int_equal(mrw_link_connect(link, &peer), MARROW_INTERNAL_ERROR);
			peer.qpn = 0xabcde;
			peer.psn = 0x123456;
			peer.lid = 99;
			peer.mtu = 1024;
			peer.gid[15] = 200;
			assert_int_equal(mrw_link_connect(link, &peer), MARROW_SUCCESS);
			if (queues == MRW_QUEUES_VERBS) {
				assert_int_equal(f->attr.path_mtu, IBV_MTU_1024);
				assert_int_equal(f->attr.dest_qp_num, 0xabcde);
				assert_int_equal(f->attr.rq_psn, 0x123456);
				assert_int_equal(f->attr.ah_attr.is_global, !infiniband);
				assert_int_equal(f->attr.ah_attr.dlid, 99);
				assert_int_equal(f->attr.ah_attr.grh.dgid.raw[15], infiniband ? 0 : 200);
				assert_int_equal(f->attr.ah_attr.grh.traffic_class, infiniband ? 0 : 104);
				assert_int_equal(f->attr.ah_attr.sl, 3);
				assert_int_equal(f->attr.timeout, 14);
				assert_int_equal(f->attr.retry_cnt, 2);
				assert_int_equal(f->attr.ah_attr.grh.flow_label != 0, !infiniband);
			} else {
				const uint8_t *qpc = f->command[1] + MRW_PRM_QPC_AT, *path = qpc + MRW_PRM_PATH_AT;

				assert_int_equal(mrw_prm_get(qpc, MRW_PRM_QPC_MTU), IBV_MTU_1024);
				assert_int_equal(mrw_prm_get(qpc, MRW_PRM_QPC_REMOTE_QPN), 0xabcde);
				assert_int_equal(mrw_prm_get(qpc, MRW_PRM_QPC_NEXT_RECEIVE_PSN), 0x123456);
				assert_int_equal(mrw_prm_get(path, MRW_PRM_PATH_LID), infiniband ? 99 : 0);
				uint32_t label = f->attr.ah_attr.grh.flow_label;
				assert_int_equal(mrw_prm_get(path, MRW_PRM_PATH_MAC_LOW), infiniband ? 0 : 0x04050607);
				/* 0 would have libmlx5 draw a number. */
				assert_int_equal(label != 0 && label < 1 << 20, !infiniband);
				assert_int_equal(mrw_prm_get(path, MRW_PRM_PATH_UDP_PORT),
						 infiniband ? 0 : 0xc000 | ((label ^ label >> 14) & 0x3fff));
				assert_int_equal(path[MRW_PRM_PATH_GID_AT + 15], infiniband ? 0 : 200);
				assert_int_equal(mrw_prm_get(path, MRW_PRM_PATH_DSCP), infiniband ? 0 : 26);
				assert_int_equal(mrw_prm_get(path, infiniband ? MRW_PRM_PATH_SERVICE_LEVEL : MRW_PRM_PATH_ETHERNET_PRIORITY), 3);
				qpc = f->command[2] + MRW_PRM_QPC_AT;
				assert_int_equal(mrw_prm_get(qpc, MRW_PRM_QPC_RETRIES), 2);
				assert_int_equal(mrw_prm_get(qpc + MRW_PRM_PATH_AT, MRW_PRM_PATH_TIMEOUT), 14);
			}
			assert_int_equal(mrw_link_connect(link, &peer), MARROW_INVALID_USAGE);
			mrw_link_free(link);
			mrw_nic_close(nic);
		}
	reset();
}

/* Of a field of 64 bits. */
static uint32_t low_word(const uint8_t *at, enum mrw_prm_field field)
{
	uint32_t word;

	memcpy(&word, at + mrw_prm_place(field).bit / 8 + 4, sizeof word);
	return mrw_be32(word);
}

/* One registration for all, each in its part: what the device, kernels and the host are told of it. */
static void rings_in_other_memory(void **state)
{
	struct mrw_nic_config config = defaults(MRW_QUEUES_AUTO);
	struct mrw_queue_memory m = ring_memory(true), by_address = ring_memory(false);
	struct mrw_queue queue[3], kernels;
	struct mrw_link *link[3];
	struct mrw_link_memory memory;
	struct mrw_nic *nic;
	const uint8_t *cq = f->create[0], *qp = f->create[1];

	(void)state;
	reset();
	config.collapsed = 0;
	assert_int_equal(mrw_nic_open(&nic, "mlx5_0", 0, &config), MARROW_SUCCESS);
	assert_int_equal(mrw_nic_queue_bytes(nic), 4 * 4096);
	if (!has_umem_in) {
		assert_int_equal(mrw_nic_place_queues(nic, &m), MARROW_UNSUPPORTED);
		said(has_devx ? "no mlx5dv_devx_umem_reg_ex" : "made by verbs");
		assert_int_equal(mrw_nic_place_queues(nic, &by_address), has_devx ? MARROW_SUCCESS : MARROW_UNSUPPORTED);
		mrw_nic_close(nic);
		reset();
		return;
	}
	assert_int_equal(mrw_nic_place_queues(nic, &m), MARROW_SUCCESS);
	assert_int_equal(f->live, 3); /* context, domain and this */
	assert_int_equal((uintptr_t)f->umem.address, DMABUF_OFFSET);
	assert_int_equal(f->umem.bytes, sizeof rings);
	assert_int_equal(f->umem.access, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(f->umem.page_sizes, ~0xfffull);
	assert_int_equal(f->umem.mask, 1);
	assert_int_equal(f->umem.dmabuf_fd, DMABUF);
	memset(rings, 0x11, sizeof rings);
	for (uint32_t i = 0; i < 2; i++) {
		const uint8_t *part = rings + i * 16384ull;

		assert_int_equal(mrw_link_new(nic, 3, &queue[i], &link[i]), MARROW_SUCCESS);
		assert_true(mrw_link_is_placed(link[i]));
		assert_int_equal(mrw_prm_get(qp, MRW_PRM_QP_UMEM), 0x99);
		assert_int_equal(mrw_prm_get(cq, MRW_PRM_CQ_UMEM), 0x99);
		assert_int_equal(low_word(qp, MRW_PRM_QP_UMEM_OFFSET), i * 16384);
		assert_int_equal(low_word(cq, MRW_PRM_CQ_UMEM_OFFSET), i * 16384 + 8192);
		assert_int_equal(mrw_prm_get(qp + MRW_PRM_QPC_AT, MRW_PRM_QPC_RECORD_UMEM), 0x99);
		assert_int_equal(low_word(qp + MRW_PRM_QPC_AT, MRW_PRM_QPC_RECORD_OFFSET), i * 16384 + 4096);
		assert_int_equal(low_word(cq + MRW_PRM_CQC_AT, MRW_PRM_CQC_RECORD_OFFSET), i * 16384 + 8192 + 4096);
		assert_int_equal(mrw_prm_get(cq + MRW_PRM_CQC_AT, MRW_PRM_CQC_RECORD_UMEM), 0x99);
		mrw_link_get_queue(link[i], &kernels);
		assert_ptr_equal(kernels.sq, part);
		assert_ptr_equal(kernels.record, part + 4096 + 4);
		assert_ptr_equal(kernels.cq, part + 8192);
		assert_ptr_equal(kernels.cq_record, part + 8192 + 4096);
		assert_int_equal(part[0] | part[4100], 0);
		assert_int_equal(part[8192], 0xff);
		/* The host has pages of its own, and does not ring. */
		assert_true(queue[i].sq < rings || queue[i].sq >= rings + sizeof rings);
		assert_ptr_not_equal(queue[i].doorbell, kernels.doorbell);
		mrw_link_get_memory(link[i], &memory);
		assert_int_equal(memory.sq.bytes + memory.record.bytes + memory.cq.bytes + memory.cq_record.bytes, 0);
		assert_int_equal(memory.doorbell.bytes, 4096);
	}
	f->fail_at = f->calls + 1;
	assert_int_equal(mrw_link_pull(link[1]), MARROW_CUDA_ERROR);
	said("mlx5_0: copying 4096 bytes from the rings of queue pair 0x");
	said(" to rank 3 failed: no copy");
	assert_int_equal(mrw_link_new(nic, 3, &queue[2], &link[2]), MARROW_SYSTEM_ERROR);
	said("the memory for rings holds 2 queue pairs");
	mrw_link_free(link[0]);
	mrw_link_free(link[1]);
	/* The host's pages again. */
	assert_int_equal(mrw_nic_place_queues(nic, NULL), MARROW_SUCCESS);
	assert_int_equal(f->live, 2);
	assert_int_equal(mrw_link_new(nic, 3, &queue[0], &link[0]), MARROW_SUCCESS);
	assert_false(mrw_link_is_placed(link[0]));
	mrw_link_get_queue(link[0], &kernels);
	assert_memory_equal(&kernels, &queue[0], sizeof kernels);
	mrw_link_free(link[0]);
	mrw_nic_close(nic);
	reset();
}

static void events(void **state)
{
	struct mrw_nic_config config = defaults(MRW_QUEUES_AUTO);
	struct mrw_nic *nic;

	(void)state;
	reset();
	assert_int_equal(mrw_nic_open(&nic, "mlx5_0", 0, &config), MARROW_SUCCESS);
	assert_null(mrw_nic_trouble(nic));
	f->has_event = true;
	f->event.event_type = IBV_EVENT_PORT_ERR;
	f->event.element.port_num = 2; /* not ours */
	assert_null(mrw_nic_trouble(nic));
	f->has_event = true;
	f->event.element.port_num = 1;
	assert_non_null(strstr(mrw_nic_trouble(nic), "port went down"));
	assert_non_null(strstr(mrw_nic_trouble(nic), "mlx5_0 port 1"));
	f->has_event = true;
	f->event.event_type = IBV_EVENT_PORT_ACTIVE;
	assert_null(mrw_nic_trouble(nic));
	f->has_event = true;
	f->event.event_type = IBV_EVENT_DEVICE_FATAL;
	assert_non_null(strstr(mrw_nic_trouble(nic), "the device has failed"));
	mrw_nic_close(nic);
	mrw_nic_close(NULL);
	reset();
}

/* What befell the queue pair of a trial says nothing of the NIC, which does without; what befell the port does. */
static void trials(void **state)
{
	struct mrw_nic_config config = defaults(MRW_QUEUES_AUTO);
	struct mrw_queue_memory m = ring_memory(false);
	struct mrw_nic *nic;

	(void)state;
	if (!has_devx)
		skip();
	reset();
	config.collapsed = 0;
	assert_int_equal(mrw_nic_open(&nic, "mlx5_0", 0, &config), MARROW_SUCCESS);
	assert_int_equal(mrw_nic_place_queues(nic, &m), MARROW_SUCCESS);
	assert_int_equal(mrw_nic_trial(nic, 20), MARROW_SYSTEM_ERROR); /* nothing answers */
	said("with rings in GPU memory saw neither data nor completion within 20 ms");
	assert_null(mrw_nic_trouble(nic));
	f->has_event = true;
	f->event.event_type = IBV_EVENT_QP_FATAL;
	assert_int_equal(mrw_nic_trial(nic, 10000), MARROW_SYSTEM_ERROR);
	said("a queue pair failed; that was in its self test");
	assert_null(mrw_nic_trouble(nic));
	f->has_event = true;
	f->event.event_type = IBV_EVENT_PORT_ERR;
	f->event.element.port_num = 1;
	assert_int_equal(mrw_nic_trial(nic, 10000), MARROW_SYSTEM_ERROR);
	assert_non_null(strstr(mrw_nic_trouble(nic), "port went down"));
	/* A queue pair's failure does not hide what it comes from, and is none that a port's coming back mends. */
	f->has_event = true;
	f->event.event_type = IBV_EVENT_QP_FATAL;
	assert_non_null(strstr(mrw_nic_trouble(nic), "port went down"));
	f->has_event = true;
	f->event.event_type = IBV_EVENT_PORT_ACTIVE;
	assert_non_null(strstr(mrw_nic_trouble(nic), "a queue pair failed"));
	mrw_nic_close(nic);
	reset();
}

/* A file of that name that is no library, or one without its functions. */
static void library_missing(void **state)
{
	uint32_t count = 5;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mrw_nic_count("", &count), MARROW_UNSUPPORTED);
		assert_int_equal(count, 0);
		said("libibverbs.so.1");
		said("rdma-core");
	}
}

static void *preload(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return library;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest missing[] = {cmocka_unit_test(library_missing)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_fails_once),
		cmocka_unit_test(verbs_where_device_commands_fail),
		cmocka_unit_test(devices_and_ports),
		cmocka_unit_test(no_descriptors),
		cmocka_unit_test(variables),
		cmocka_unit_test(addresses),
		cmocka_unit_test(memory_that_cannot_be_registered),
		cmocka_unit_test(connections),
		cmocka_unit_test(rings_in_other_memory),
		cmocka_unit_test(events),
		cmocka_unit_test(trials),
	};
	void *verbs;

	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "missing")) {
		for (int i = 2; i < argc; i++)
			preload(argv[i]);
		return cmocka_run_group_tests(missing, NULL, NULL);
	}
	if (argc < 4)
		return 2;
	verbs = preload(argv[1]);
	preload(argv[2]);
	has_devx = !strncmp(argv[3], "devx", 4);
	has_umem_in = !strcmp(argv[3], "devx");
	f = dlsym(verbs, "fake");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
