/* testing.c - what tests may do to a communicator between operations. Not exported. */
#include "comm.h"

#include <stdlib.h>

const struct mrw_runtime *mrw_comm_runtime;

void mrw_comm_set_host_team(struct marrow_comm *comm, uint32_t team_size, bool parallel_channels)
{
	comm->device.team_size = team_size;
	comm->device.parallel_channels = parallel_channels;
}

void mrw_comm_set_channels(struct marrow_comm *comm, uint32_t channels)
{
	comm->forced_channels = channels;
}

void mrw_comm_set_listed(struct marrow_comm *comm, uint32_t listed)
{
	comm->forced_listed = listed;
}

void mrw_comm_set_algo(struct marrow_comm *comm, int32_t algo)
{
	comm->forced_algo = algo;
}

void mrw_comm_set_note_ns(struct marrow_comm *comm, uint64_t note_ns)
{
	comm->args.note_ns = note_ns;
}

/* Every ordered pair stands before transfer number first, every lane before chunk number chunks. */
static enum marrow_status set_lanes(struct marrow_comm *comm, uint64_t first, uint64_t chunks)
{
	const struct mrw_layout *l = &comm->args.layout;
	struct mrw_device *d = &comm->device;
	uint64_t bytes = l->lane_staging_offset - l->lanes_offset, lanes = (l->lane_packets_offset - l->lanes_offset) / sizeof(struct mrw_lane);
	struct mrw_lane *lane = calloc(1, bytes);
	if (!lane)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a test");
	for (uint64_t i = 0; i < lanes; i++) {
		lane[i].first = lane[i].base = first;
		lane[i].chunks = lane[i].count = chunks;
		for (uint32_t parity = 0; parity < 2; parity++)
			for (uint32_t u = 0; u < 4; u++)
				lane[i].heard[parity].unit[u] = (uint64_t)((uint32_t)first ^ 0x80000000u) << 32;
	}
	uint64_t *flags = (uint64_t *)(void *)((uint8_t *)lane + (l->lane_packets_offset - l->lanes_offset));
	for (uint64_t i = 0; i < (l->lane_staging_offset - l->lane_packets_offset) / 8; i++)
		flags[i] = (uint64_t)((uint32_t)first ^ 0x80000000u) << 32;
	enum marrow_status status = d->runtime->poke(d, comm->arena.base + l->lanes_offset, lane, bytes);
	free(lane);
	return status;
}

/* The last 2^30 operations would have left no flag of a packet or greeting that comes up again in the next 2^30: nor does this. */
enum marrow_status mrw_comm_set_seq(struct marrow_comm *comm, uint32_t next, uint64_t round)
{
	const struct mrw_layout *l = &comm->args.layout;
	struct mrw_device *d = &comm->device;
	struct mrw_control *control = (struct mrw_control *)(void *)comm->arena.base;
	struct mrw_channel_state states[MRW_MAX_CHANNELS];
	/* Packets of far slots, of near ones; counters. */
	uint64_t packets[] = {l->staging_offset[0] - l->packets_offset[0], l->near_staging_offset[0] - l->near_packets_offset[0]};
	uint64_t most = packets[0] > packets[1] ? packets[0] : packets[1], words = (uint64_t)l->channels * l->counters;
	uint64_t greetings = l->proof_offset - l->heard_offset;
	most = most > greetings ? most : greetings;
	uint64_t *flags = malloc(most), *rounds = malloc(words * 8);
	enum marrow_status status = MARROW_OUT_OF_MEMORY;
	if (!flags || !rounds)
		goto fail;
	for (uint64_t i = 0; i < most / 8; i++)
		flags[i] = (uint64_t)(next ^ 0x80000000u) << 32;
	for (uint32_t c = 0; c < MRW_MAX_CHANNELS; c++) {
		states[c].word = (uint32_t)(next - 1);
		states[c].round = round;
	}
	for (uint64_t i = 0; i < words; i++)
		rounds[i] = round;
	MRW_TRY_GOTO(d->runtime->poke(d, comm->arena.base + l->packets_offset[0], flags, packets[0]));
	MRW_TRY_GOTO(d->runtime->poke(d, comm->arena.base + l->near_packets_offset[0], flags, packets[1]));
	MRW_TRY_GOTO(d->runtime->poke(d, comm->arena.base + l->heard_offset, flags, greetings));
	MRW_TRY_GOTO(d->runtime->poke(d, control->channel, states, sizeof states));
	MRW_TRY_GOTO(d->runtime->poke(d, mrw_round_at(l, comm->arena.base, 0, 0), rounds, words * 8));
	status = set_lanes(comm, next, round);
fail:
	free(flags);
	free(rounds);
	return status;
}

void mrw_comm_set_places(struct marrow_comm *comm)
{
	comm->forced_places = true;
}
