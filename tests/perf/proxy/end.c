#include "end.h"

#include "bootstrap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINE = 64, TIMEOUT_MS = 60000 };

static struct {
	struct mrw_boot *boot;
	uint32_t rank, nranks;
} meeting;

void end_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "rank %u: ", meeting.rank);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	_exit(1);
}

static void must(enum marrow_status status)
{
	if (status != MARROW_SUCCESS)
		end_die("%s", mrw_error_text());
}

void ends_meet(uint32_t *rank, uint32_t *nranks)
{
	const char *mine = getenv("MARROW_RANK"), *all = getenv("MARROW_NRANKS"), *root = getenv("MARROW_ROOT");
	struct mrw_boot_options options = {.timeout_ms = TIMEOUT_MS, .ifname = ""};
	struct marrow_unique_id id;

	if (!mine || !all || !root)
		end_die("run this by marrow-softnic run -n 2 --hosts 2");
	*rank = meeting.rank = (uint32_t)atoi(mine);
	*nranks = meeting.nranks = (uint32_t)atoi(all);
	if (*nranks < 2 || *nranks > END_RANKS)
		end_die("2 to %d ranks take part", END_RANKS);
	must(mrw_boot_make_env_id(&id, root, "", *rank == 0));
	must(mrw_boot_open(&meeting.boot, &id, *rank, *nranks, &options));
}

void ends_barrier(void)
{
	must(mrw_boot_barrier(meeting.boot));
}

void ends_gather(const void *mine, void *all, size_t bytes)
{
	must(mrw_boot_allgather(meeting.boot, mine, all, bytes));
}

void ends_part(void)
{
	mrw_boot_tell(meeting.boot, MRW_NOTICE_BYE, "");
	mrw_boot_close(meeting.boot);
}

static uint64_t stride(const struct end *end)
{
	return (end->room + LINE - 1) / LINE * LINE;
}

uint64_t end_source(const struct end *end, uint64_t seq)
{
	return (seq & 1) * stride(end);
}

uint64_t end_slot(const struct end *end, uint32_t sender, uint64_t seq)
{
	return (2 + sender * 2 + (seq & 1)) * stride(end);
}

uint64_t end_flag(const struct end *end, uint32_t sender)
{
	return (2 + 2 * END_RANKS) * stride(end) + sender * (uint64_t)LINE;
}

uint64_t end_word(const struct end *end, uint32_t peer, uint64_t number)
{
	return end_flag(end, END_RANKS) + (peer * (uint64_t)END_WORDS + number % END_WORDS) * sizeof(uint64_t);
}

/* What ranks tell each other. */
struct card {
	struct mrw_link_address to[END_RANKS];
	uint64_t address;
	uint64_t rkey;
};

void end_open(struct end *end, uint64_t room, enum mrw_queues queues)
{
	struct mrw_nic_config config;
	struct card mine, all[END_RANKS];
	uint64_t bytes;

	memset(end, 0, sizeof *end);
	memset(&mine, 0, sizeof mine);
	end->rank = meeting.rank;
	end->nranks = meeting.nranks;
	end->room = room;
	bytes = end_word(end, END_RANKS, 0);
	end->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	end->queues = aligned_alloc(LINE, sizeof *end->queues * END_RANKS);
	if (end->memory == MAP_FAILED || !end->queues)
		end_die("no memory for messages of %llu bytes", (unsigned long long)room);
	mrw_nic_defaults(&config);
	config.collapsed = 0; /* as the library has it */
	config.queues = queues;
	must(mrw_nic_open(&end->nic, "", 0, &config));
	must(mrw_region_new(end->nic, end->memory, bytes, -1, &end->region));
	for (uint32_t p = 0; p < end->nranks; p++)
		if (p != end->rank) {
			end->peer[p].queue = &end->queues[p];
			must(mrw_link_new(end->nic, p, end->peer[p].queue, &end->peer[p].link));
			mrw_link_get_address(end->peer[p].link, &mine.to[p]);
		}
	mine.address = end->region.address;
	mine.rkey = end->region.rkey;
	ends_gather(&mine, all, sizeof mine);
	for (uint32_t p = 0; p < end->nranks; p++)
		if (p != end->rank) {
			must(mrw_link_connect(end->peer[p].link, &all[p].to[end->rank]));
			end->peer[p].address = all[p].address;
			end->peer[p].rkey = (uint32_t)all[p].rkey;
		}
	ends_barrier();
}

void end_close(struct end *end)
{
	ends_barrier(); /* nothing is on its way to who has left */
	for (uint32_t p = 0; p < end->nranks; p++)
		mrw_link_free(end->peer[p].link);
	mrw_region_free(end->nic, &end->region);
	mrw_nic_close(end->nic);
	munmap(end->memory, end_word(end, END_RANKS, 0));
	free(end->queues);
}
