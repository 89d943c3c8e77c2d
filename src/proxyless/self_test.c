/* self_test.c - is the way from a doorbell to memory and back what it should be? A queue pair of the NIC writes to itself, from rings where links
 * have theirs now. */
#include "inside.h"

#include <sys/mman.h>

enum { ROUNDS = 24, DATA_BYTES = 64 << 10, FLAG_AT = 2 * DATA_BYTES, ALL_BYTES = FLAG_AT + 4096 };
#define PATIENCE_MS 5000u

struct test {
	struct mrw_nic *nic;
	uint32_t patience_ms; /* of each wait */
	struct mrw_queue queue;
	struct mrw_link *link;
	struct mrw_region region;
	uint8_t *memory; /* source, target, flag */
};

static uint64_t pattern(uint32_t round, uint64_t word)
{
	return (word + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)round << 56;
}

static const char *rings(const struct test *t)
{
	return t->link && mrw_link_is_placed(t->link) ? " with rings in GPU memory" : "";
}

static enum marrow_status completion_failed(struct test *t)
{
	uint64_t failed = mrw_load_relaxed(&t->queue.failed);
	const char *trouble = mrw_nic_trouble(t->nic);

	return mrw_fail(MARROW_SYSTEM_ERROR,
			"%s: the self test's write to the NIC itself%s failed: %s (syndrome 0x%x, vendor 0x%x)%s%s",
			t->nic->info.name, rings(t), mrw_syndrome_text(mrw_fault_syndrome(failed)), mrw_fault_syndrome(failed),
			mrw_fault_vendor(failed), trouble ? "; " : "", trouble ? trouble : "");
}

/* What never came tells where it was lost. */
static enum marrow_status nothing_came(struct test *t, bool flag, bool completion)
{
	const char *name = t->nic->info.name;

	if (flag)
		return mrw_fail(
			MARROW_SYSTEM_ERROR,
			"%s: the self test's data arrived, but no completion within %u ms%s: completion entries do not reach memory",
			name, t->patience_ms, rings(t));
	if (completion)
		return mrw_fail(
			MARROW_SYSTEM_ERROR,
			"%s: the self test's write is complete, but its flag is not in memory: writes of the NIC end elsewhere "
			"(IOMMU translation, PCIe access control)%s",
			name, rings(t));
	return mrw_fail(
		MARROW_SYSTEM_ERROR,
		"%s: the self test%s saw neither data nor completion within %u ms: %s, or packets to itself do not come back (port %u, MTU %u)",
		name, rings(t), t->patience_ms,
		rings(t)[0] ? "the NIC does not read requests there (IOMMU translation, PCIe access control)" : "the doorbell does not reach the NIC",
		t->nic->info.port, t->nic->info.mtu);
}

enum { FLAG, COMPLETION, POLLS_A_LOOK = 4096 };

/* Waits for the round's flag in memory, or for the completion of the request at index. */
static enum marrow_status wait_for(struct test *t, int what, uint32_t round, uint64_t index)
{
	const uint64_t *flag = (const uint64_t *)(const void *)(t->memory + FLAG_AT);
	uint64_t until = mrw_clock_ns() + t->patience_ms * 1000000ull;

	for (uint32_t spins = 0;; spins++) {
		MRW_TRY(mrw_link_pull(t->link));
		bool done = mrw_poll_done(&t->queue, index), seen = mrw_load_relaxed(flag) == round;

		if (what == FLAG ? seen : done)
			break;
		if (mrw_load_relaxed(&t->queue.failed))
			return completion_failed(t);
		if (spins % POLLS_A_LOOK == POLLS_A_LOOK - 1) {
			const char *trouble = mrw_nic_trouble(t->nic);

			if (trouble)
				return mrw_fail(MARROW_SYSTEM_ERROR, "%s; that was in its self test", trouble);
		}
		if (mrw_clock_ns() > until)
			return nothing_came(t, seen, done);
		mrw_pause(spins, MRW_POST_SPINS);
	}
	mrw_observed(flag);
	return MARROW_SUCCESS;
}

static enum marrow_status one_round(struct test *t, uint32_t round, uint32_t bytes)
{
	struct mrw_queue *q = &t->queue;
	uint64_t *source = (uint64_t *)(void *)t->memory, *target = (uint64_t *)(void *)(t->memory + DATA_BYTES), first;

	for (uint32_t i = 0; i < bytes / 8; i++)
		source[i] = pattern(round, i);
	if (!mrw_post_reserve(q, 2, &first))
		return completion_failed(t);
	mrw_wqe_write(mrw_post_slot(q, first), first, q->qpn, false, t->region.address + DATA_BYTES, t->region.rkey,
		      t->region.address, t->region.lkey, bytes);
	mrw_wqe_write_word(mrw_post_slot(q, first + 1), first + 1, q->qpn, true, t->region.address + FLAG_AT,
			   t->region.rkey, round);
	mrw_post_ready(q, first, 2);
	MRW_TRY(mrw_link_push(t->link));
	MRW_TRY(wait_for(t, FLAG, round, first + 1));
	for (uint32_t i = 0; i < bytes / 8; i++)
		if (target[i] != pattern(round, i))
			return mrw_fail(
				MARROW_SYSTEM_ERROR,
				"%s: the self test saw a flag before its data (%u bytes, word %u): writes are reordered on their "
				"way to memory (relaxed ordering of PCIe?)",
				t->nic->info.name, bytes, i);
	return wait_for(t, COMPLETION, round, first + 1); /* the source may be rewritten then */
}

static enum marrow_status connect_to_itself(struct test *t, bool trial)
{
	struct mrw_link_address self;

	MRW_TRY(mrw_link_new(t->nic, 0, &t->queue, &t->link));
	t->link->trial = trial;
	mrw_link_get_address(t->link, &self);
	return mrw_link_connect(t->link, &self);
}

static enum marrow_status test(struct mrw_nic *nic, uint32_t patience_ms, bool trial)
{
	static const uint32_t sizes[] = {8, 4096, 64, DATA_BYTES};
	struct test t = {.nic = nic, .patience_ms = patience_ms};
	enum marrow_status status;

	t.memory = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t.memory == MAP_FAILED)
		return mrw_fail_errno(MARROW_OUT_OF_MEMORY, "%s: no memory for the self test", nic->info.name);
	madvise(t.memory, ALL_BYTES, MADV_DONTFORK);
	status = mrw_region_new(nic, t.memory, ALL_BYTES, -1, &t.region);
	if (status == MARROW_SUCCESS)
		status = connect_to_itself(&t, trial);
	for (uint32_t round = 1; status == MARROW_SUCCESS && round <= ROUNDS; round++)
		status = one_round(&t, round, sizes[round % 4]);
	mrw_link_free(t.link);
	mrw_region_free(nic, &t.region);
	munmap(t.memory, ALL_BYTES);
	return status;
}

enum marrow_status mrw_nic_self_test(struct mrw_nic *nic)
{
	return test(nic, PATIENCE_MS, false);
}

enum marrow_status mrw_nic_trial(struct mrw_nic *nic, uint32_t ms)
{
	enum marrow_status status = test(nic, ms, true);

	mrw_nic_forget_queues(nic);
	return status;
}
