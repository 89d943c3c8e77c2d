/* ports.c - the control plane on the kernel's own verbs: two soft-RoCE ports, rxe0 on va (10.9.0.1) and rxe1 on vb (10.9.0.2), as guest.py makes
 * them. Opens, registers, connects, and lets the NIC's work be done by ibv_post_send, for nobody executes the rings; then takes apart, and looks how
 * failures are told: bad ports, indices and memory, no permission, no locked memory, a peer that is killed, a wrong key, a completion
 * queue that overruns, a port that goes down. */
#include "../nic/ends.h"

#include "proxyless/inside.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAYS(text) CHECK(strstr(mrw_error_text(), text) != NULL)
#define FAILS(call, status, text) \
	do { \
		CHECK((call) == (status)); \
		SAYS(text); \
	} while (0)

enum { SLOTS = 64, PATIENCE_S = 30, NOBODY = 65534, FLAG = END_BYTES - 64, HALF = END_BYTES / 2 };

static struct mrw_nic_config config;

static void step(const char *what)
{
	printf("  %s\n", what);
	fflush(stdout);
}

/* Runs a command of the guest's shell. */
static void shell(const char *command)
{
	if (system(command)) {
		fprintf(stderr, "failed: %s\n", command);
		exit(1);
	}
}

static uint64_t *word(const struct end *end, uint64_t offset)
{
	return (uint64_t *)(void *)(end->memory + offset);
}

/* One request, as the NIC would have done it; its result. */
static enum ibv_wc_status work(struct end *end, struct ibv_send_wr *wr, uint64_t from, uint32_t bytes)
{
	struct ibv_sge sge = {at(end, from), bytes, end->region.lkey};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	uint64_t until = mrw_clock_ns() + PATIENCE_S * 1000000000ull;
	int n;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	CHECK(!ibv_post_send(end->link->qp, wr, &bad));
	while ((n = ibv_poll_cq(end->link->cq, 1, &wc)) == 0)
		CHECK(mrw_clock_ns() < until);
	CHECK(n == 1);
	return wc.status;
}

static enum ibv_wc_status put_by_verbs(struct end *end, uint64_t address, uint32_t rkey, uint64_t from, uint32_t bytes)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

	wr.wr.rdma.remote_addr = address;
	wr.wr.rdma.rkey = rkey;
	return work(end, &wr, from, bytes);
}

static void devices_are_chosen(void)
{
	struct mrw_nic *nic;
	struct mrw_nic_info info;
	uint32_t count;

	step("devices");
	CHECK_OK(mrw_nic_count("", &count));
	CHECK(count == 2);
	CHECK_OK(mrw_nic_count("rxe1", &count));
	CHECK(count == 1);
	FAILS(mrw_nic_count("rxe7", &count), MARROW_INVALID_ARGUMENT, "no RDMA device named \"rxe7\"; there are: rxe");
	FAILS(mrw_nic_open(&nic, "rxe1,rxe0", 2, &config), MARROW_INVALID_ARGUMENT, "admits 2");
	CHECK_OK(mrw_nic_open(&nic, "rxe1,rxe0", 0, &config));
	mrw_nic_get_info(nic, &info);
	CHECK(!strcmp(info.name, "rxe1") && !info.infiniband && info.port == 1 && !info.devx && info.max_queues > 0);
	CHECK(mrw_nic_trouble(nic) == NULL);
	mrw_nic_close(nic);
}

/* The table of a port: link-local first, then IPv4. */
static void addresses_are_chosen(void)
{
	static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, 10, 9, 0, 1};
	struct mrw_nic_config other = config;
	struct mrw_nic *nic;
	struct mrw_nic_info info;

	step("GID, port, MTU");
	CHECK_OK(mrw_nic_open(&nic, "rxe0", 0, &config));
	mrw_nic_get_info(nic, &info);
	CHECK(!memcmp(info.gid, mapped, sizeof mapped) && nic->gid_index > 0 && info.mtu == 1024);
	mrw_nic_close(nic);
	other.gid_index = 0;
	CHECK_OK(mrw_nic_open(&nic, "rxe0", 0, &other));
	mrw_nic_get_info(nic, &info);
	CHECK(nic->gid_index == 0 && info.gid[0] == 0xfe && info.gid[1] == 0x80);
	mrw_nic_close(nic);
	other.gid_index = 200;
	FAILS(mrw_nic_open(&nic, "rxe0", 0, &other), MARROW_INVALID_ARGUMENT, "GID index 200 is empty");
	other = config;
	other.port = 2;
	FAILS(mrw_nic_open(&nic, "rxe0", 0, &other), MARROW_INVALID_ARGUMENT, "rxe0 has no port 2: its ports are 1 to 1");
}

/* In a process of its own, which may change itself; it ends with 0 or a word. */
static void in_a_child(void (*body)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		body();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void with_little_locked_memory(void)
{
	static const struct rlimit limit = {64 << 10, 64 << 10};
	struct end end;
	struct mrw_region region;
	void *memory;

	end_open(&end, 0, &config);
	CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit) && !setresuid(NOBODY, NOBODY, NOBODY));
	memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FAILS(mrw_region_new(end.nic, memory, 1 << 20, -1, &region), MARROW_SYSTEM_ERROR,
	      "registering 1048576 bytes");
	SAYS("locked-memory limit 64 KiB; memory for RDMA is locked: raise the limit");
}

static void without_permission(void)
{
	struct mrw_nic *nic;
	uint32_t count;

	CHECK(!setresuid(NOBODY, NOBODY, NOBODY));
	FAILS(mrw_nic_open(&nic, "rxe0", 0, &config), MARROW_SYSTEM_ERROR, "this user may not open /dev/infiniband");
	if (access("/dev/char", F_OK) == 0) { /* else libibverbs waits for seconds for each device */
		CHECK_OK(mrw_nic_count("", &count)); /* left out with a warning */
		CHECK(count == 0);
	}
}

static void without_descriptors(void)
{
	struct mrw_nic *nic;
	struct rlimit limit = {3, 1024};
	uint32_t count;

	CHECK_OK(mrw_nic_open(&nic, "rxe0", 0, &config)); /* what is loaded once is loaded */
	mrw_nic_close(nic);
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	FAILS(mrw_nic_open(&nic, "rxe0", 0, &config), MARROW_SYSTEM_ERROR, "0 are left of the 3 that this process may have: raise the limit (ulimit -n");
	FAILS(mrw_nic_count("", &count), MARROW_SYSTEM_ERROR, "8 file descriptors");
	/* As few as are asked for do. */
	limit.rlim_cur = 3 + 8;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK_OK(mrw_nic_count("", &count));
	CHECK(count == 2);
	CHECK_OK(mrw_nic_open(&nic, "rxe0", 0, &config));
	mrw_nic_close(nic);
}

static void memory_is_registered(void)
{
	struct end end;
	struct mrw_region region;
	void *nothing = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	step("memory");
	end_open(&end, 0, &config);
	CHECK(end.region.address == (uint64_t)(uintptr_t)end.memory && end.region.bytes == END_BYTES && end.region.rkey != 0);
	FAILS(mrw_region_new(end.nic, nothing, 1 << 20, -1, &region), MARROW_SYSTEM_ERROR, "part of it is not mapped");
	FAILS(mrw_region_new(end.nic, nothing, 4096, 1, &region), MARROW_SYSTEM_ERROR, "by dma-buf failed");
	end_close(&end);
	in_a_child(with_little_locked_memory);
}

static void devices_that_cannot_be_opened(void)
{
	step("no permission, no descriptors");
	shell("chmod 600 /dev/infiniband/uverbs*");
	if (access("/dev/char", F_OK)) /* the second time it is there */
		in_a_child(without_permission); /* as in a container */
	shell("mkdir -p /dev/char; for n in /dev/infiniband/uverbs*; do ln -sf $n /dev/char/$(cat /sys/class/infiniband_verbs/${n##*/}/dev); done");
	in_a_child(without_permission); /* as on a machine with udev */
	shell("chmod 666 /dev/infiniband/uverbs*");
	in_a_child(without_descriptors);
}

static void attributes_are_as_told(const struct end *end, const struct end *peer, uint32_t mtu)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	memset(&attr, 0, sizeof attr);
	CHECK(!ibv_query_qp(end->link->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS && init.qp_type == IBV_QPT_RC);
	CHECK(attr.dest_qp_num == peer->link->qpn && attr.path_mtu == (enum ibv_mtu)(__builtin_ctz(mtu) - 7));
	CHECK(attr.timeout == config.timeout && attr.retry_cnt == config.retries && attr.rnr_retry == config.rnr_retries);
	CHECK(attr.max_rd_atomic == end->nic->reads_out && attr.max_dest_rd_atomic == end->nic->reads_in);
	CHECK(attr.qp_access_flags == (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
	CHECK(attr.ah_attr.is_global && attr.ah_attr.grh.sgid_index == end->nic->gid_index);
	CHECK(!memcmp(attr.ah_attr.grh.dgid.raw, peer->nic->info.gid, 16));
	CHECK(attr.ah_attr.grh.traffic_class == config.traffic_class && attr.ah_attr.sl == config.service_level);
	CHECK(attr.pkey_index == config.pkey_index && attr.port_num == end->nic->info.port);
}

/* Data, then its flag, both ways: on one queue pair the flag's arrival says that of the data. */
static void messages_arrive(struct end *a, struct end *b)
{
	static const uint32_t sizes[] = {1, 8, 1023, 1024, 1025, 4097, 65536, HALF - 4096};
	struct end *end[2] = {a, b};

	for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes * 2; i++) {
		struct end *from = end[i & 1], *to = end[~i & 1];
		uint32_t bytes = sizes[i / 2];

		for (uint32_t k = 0; k < bytes; k++)
			from->memory[k] = (uint8_t)(k * 7 + i);
		*word(from, HALF - 8) = i + 1;
		CHECK(put_by_verbs(from, at(to, HALF), to->region.rkey, 0, bytes) == IBV_WC_SUCCESS);
		CHECK(put_by_verbs(from, at(to, FLAG), to->region.rkey, HALF - 8, 8) == IBV_WC_SUCCESS);
		CHECK(wait_word(to, FLAG, i + 1) && !memcmp(to->memory + HALF, from->memory, bytes));
	}
}

static void words_are_added_and_read(struct end *a, struct end *b)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};

	*word(b, FLAG) = 40;
	wr.wr.atomic.remote_addr = at(b, FLAG);
	wr.wr.atomic.rkey = b->region.rkey;
	wr.wr.atomic.compare_add = 2;
	CHECK(work(a, &wr, 0, 8) == IBV_WC_SUCCESS && *word(a, 0) == 40 && *word(b, FLAG) == 42);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr.rdma.remote_addr = at(b, FLAG);
	wr.wr.rdma.rkey = b->region.rkey;
	CHECK(work(a, &wr, 8, 8) == IBV_WC_SUCCESS && *word(a, 8) == 42);
}

static void ports_are_connected(void)
{
	struct end a, b;

	step("a connection");
	end_open(&a, 0, &config);
	end_open(&b, 1, &config);
	CHECK(strcmp(a.nic->info.name, b.nic->info.name) != 0);
	ends_connect(&a, &b);
	CHECK(a.nic->links == 1 && b.nic->links == 1);
	attributes_are_as_told(&a, &b, 1024);
	attributes_are_as_told(&b, &a, 1024);
	messages_arrive(&a, &b);
	words_are_added_and_read(&a, &b);
	/* Once more, on the same NICs. */
	mrw_link_free(a.link);
	mrw_link_free(b.link);
	ends_connect(&a, &b);
	messages_arrive(&a, &b);
	CHECK(mrw_nic_trouble(a.nic) == NULL && mrw_nic_trouble(b.nic) == NULL);
	end_close(&a);
	end_close(&b);
}

/* vb takes larger packets than va: with its own MTU nothing from there would arrive. */
static void the_smaller_mtu_holds(void)
{
	struct end a, b;

	step("MTUs that differ");
	shell("/tools/ip link set vb mtu 4500");
	end_open(&a, 0, &config);
	end_open(&b, 1, &config);
	CHECK(a.nic->info.mtu != b.nic->info.mtu && (a.nic->info.mtu == 4096 || b.nic->info.mtu == 4096));
	ends_connect(&a, &b);
	attributes_are_as_told(&a, &b, 1024);
	attributes_are_as_told(&b, &a, 1024);
	messages_arrive(&a, &b);
	end_close(&a);
	end_close(&b);
	shell("/tools/ip link set vb mtu 1500");
}

static void a_wrong_key_is_refused(void)
{
	struct end a, b;

	step("a wrong key");
	end_open(&a, 0, &config);
	end_open(&b, 1, &config);
	ends_connect(&a, &b);
	CHECK(put_by_verbs(&a, at(&b, 0), b.region.rkey ^ 0x5500, 0, 64) == IBV_WC_REM_ACCESS_ERR);
	CHECK(put_by_verbs(&a, at(&b, 0), b.region.rkey, 0, 64) == IBV_WC_WR_FLUSH_ERR);
	end_close(&a);
	end_close(&b);
}

/* Completions that nobody takes. */
static void an_overrun_is_told(void)
{
	struct end a, b;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
	uint64_t until = mrw_clock_ns() + PATIENCE_S * 1000000000ull;
	const char *trouble;

	step("a completion queue that overruns");
	end_open(&a, 0, &config);
	end_open(&b, 1, &config);
	ends_connect(&a, &b);
	sge = (struct ibv_sge){at(&a, 0), 8, a.region.lkey};
	wr.wr.rdma.remote_addr = at(&b, 0);
	wr.wr.rdma.rkey = b.region.rkey;
	while (!(trouble = mrw_nic_trouble(a.nic))) {
		ibv_post_send(a.link->qp, &wr, &bad); /* full: again */
		CHECK(mrw_clock_ns() < until);
	}
	CHECK(strstr(trouble, "port 1: a completion queue overran") || strstr(trouble, "port 1: a queue pair failed"));
	end_close(&a);
	end_close(&b);
}

/* What the killed peer had told. */
struct card {
	struct mrw_link_address address;
	struct mrw_region region;
};

static void be_killed(int mine, int theirs)
{
	struct end b;
	struct card card, other;

	memset(&card, 0, sizeof card);
	end_open(&b, 1, &config);
	CHECK_OK(mrw_link_new(b.nic, 0, &b.queue, &b.link));
	mrw_link_get_address(b.link, &card.address);
	card.region = b.region;
	CHECK(write(mine, &card, sizeof card) == sizeof card);
	CHECK(read(theirs, &other, sizeof other) == sizeof other);
	CHECK_OK(mrw_link_connect(b.link, &other.address));
	CHECK(write(mine, "c", 1) == 1);
	for (;;)
		pause();
}

static void a_killed_peer_is_noticed(void)
{
	struct mrw_nic_config soon = config;
	struct end a;
	struct card card, theirs;
	int down[2], up[2];
	enum ibv_wc_status status;
	uint64_t begin;
	char byte;
	pid_t child;

	step("a killed peer");
	CHECK(!pipe(down) && !pipe(up));
	child = fork();
	CHECK(child >= 0);
	if (!child)
		be_killed(up[1], down[0]);
	memset(&card, 0, sizeof card);
	soon.retries = 6; /* soft-RoCE takes 7 for endless */
	end_open(&a, 0, &soon);
	CHECK_OK(mrw_link_new(a.nic, 1, &a.queue, &a.link));
	mrw_link_get_address(a.link, &card.address);
	card.region = a.region;
	CHECK(read(up[0], &theirs, sizeof theirs) == sizeof theirs);
	CHECK_OK(mrw_link_connect(a.link, &theirs.address));
	CHECK(write(down[1], &card, sizeof card) == sizeof card && read(up[0], &byte, 1) == 1);
	for (int i = 0; i < 20; i++)
		CHECK(put_by_verbs(&a, theirs.region.address, theirs.region.rkey, 0, 4096) == IBV_WC_SUCCESS);
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
	begin = mrw_clock_ns();
	status = put_by_verbs(&a, theirs.region.address, theirs.region.rkey, 0, 4096);
	printf("    after %.0f ms: %s\n", (double)(mrw_clock_ns() - begin) / 1e6, ibv_wc_status_str(status));
	CHECK(status == IBV_WC_RETRY_EXC_ERR);
	/* Its port and its network interface are well. */
	CHECK(mrw_nic_trouble(a.nic) == NULL || !strstr(mrw_nic_trouble(a.nic), "port went down"));
	end_close(&a);
	for (int i = 0; i < 2; i++) {
		close(down[i]);
		close(up[i]);
	}
}

/* The address of nobody: found when the queue pair is told of it. */
static void an_address_of_nobody_is_named(void)
{
	struct end a;
	struct mrw_link_address address;

	step("an address of nobody");
	end_open(&a, 0, &config);
	CHECK_OK(mrw_link_new(a.nic, 5, &a.queue, &a.link));
	mrw_link_get_address(a.link, &address);
	address.gid[15] = 77;
	FAILS(mrw_link_connect(a.link, &address), MARROW_SYSTEM_ERROR, "readying a queue pair to receive (RTR) from rank 5 failed");
	SAYS("do the two ends ping each other");
	end_close(&a);
}

static void a_port_that_goes_down_is_named(void)
{
	struct end a;
	struct mrw_nic *nic;
	uint32_t count;
	uint64_t until = mrw_clock_ns() + PATIENCE_S * 1000000000ull;
	const char *trouble;

	step("a port that goes down");
	end_open(&a, 0, &config);
	CHECK(mrw_nic_trouble(a.nic) == NULL);
	shell("/tools/ip link set va down; /tools/ip link set vb down");
	while (!(trouble = mrw_nic_trouble(a.nic)))
		CHECK(mrw_clock_ns() < until);
	CHECK(strstr(trouble, "port 1: the port went down"));
	CHECK_OK(mrw_nic_count("", &count));
	CHECK(count == 0);
	FAILS(mrw_nic_open(&nic, "rxe0", 0, &config), MARROW_SYSTEM_ERROR, "port 1 of rxe0 is not active but down");
	/* The routes went with the interfaces. */
	shell("/tools/ip link set va up; /tools/ip link set vb up");
	shell("/tools/ip route add 10.9.0.2 dev va src 10.9.0.1 table 101; /tools/ip route add 10.9.0.1 dev vb src 10.9.0.2 table 102");
	while (mrw_nic_trouble(a.nic))
		CHECK(mrw_clock_ns() < until);
	end_close(&a);
}

/* Queue pairs, regions, completion queues, domains and contexts of this process, as the kernel counts them. */
static void nothing_is_left(void)
{
	char line[256], mine[32];
	FILE *list;

	step("nothing is left");
	snprintf(mine, sizeof mine, "pid %d ", (int)getpid());
	for (int i = 0; i < 5; i++) {
		static const char *const kinds[] = {"qp", "mr", "cq", "pd", "ctx"};

		snprintf(line, sizeof line, "/tools/rdma resource show %s", kinds[i]);
		list = popen(line, "r");
		CHECK(list);
		while (fgets(line, sizeof line, list))
			CHECK(!strstr(line, mine));
		CHECK(pclose(list) == 0);
	}
}

int main(void)
{
	/* 67 ms before a resend, seven of them: with packets lost none of these should be exhausted by chance. */
	mrw_nic_defaults(&config);
	config.slots = SLOTS;
	config.timeout = 14;
	config.traffic_class = 104;
	need_nics(2);
	devices_are_chosen();
	addresses_are_chosen();
	memory_is_registered();
	devices_that_cannot_be_opened();
	ports_are_connected();
	the_smaller_mtu_holds();
	a_wrong_key_is_refused();
	an_overrun_is_told();
	a_killed_peer_is_noticed();
	an_address_of_nobody_is_named();
	a_port_that_goes_down_is_named();
	ports_are_connected();
	nothing_is_left();
	printf("  all well\n");
	return 0;
}
