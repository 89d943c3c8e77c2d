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

void mrw_comm_set_algo(struct marrow_comm *comm, int32_t algo)
{
	comm->forced_algo = algo;
}

void mrw_comm_set_note_ns(struct marrow_comm *comm, uint64_t note_ns)
{
	comm->args.note_ns = note_ns;
}

/* The last 2^30 operations would have left no packet flag that comes up again in the next 2^30: nor does this. */
enum marrow_status mrw_comm_set_seq(struct marrow_comm *comm, uint32_t next, uint64_t round)
{
	const struct mrw_layout *l = &comm->args.layout;
	struct mrw_device *d = &comm->device;
	struct mrw_control *control = (struct mrw_control *)(void *)comm->arena.base;
	uint64_t packets_bytes = l->staging_offset[0] - l->packets_offset[0];
	struct mrw_channel_state states[MRW_MAX_CHANNELS];
	uint64_t rounds[MRW_MAX_CHANNELS][MRW_MAX_RANKS];
	uint64_t *flags = malloc(packets_bytes);
	if (!flags)
		return mrw_fail(MARROW_OUT_OF_MEMORY, "out of memory for a test");
	for (uint64_t i = 0; i < packets_bytes / 8; i++)
		flags[i] = (uint64_t)(next ^ 0x80000000u) << 32;
	for (uint32_t c = 0; c < MRW_MAX_CHANNELS; c++) {
		states[c].word = (uint32_t)(next - 1);
		states[c].round = round;
		for (uint32_t r = 0; r < MRW_MAX_RANKS; r++)
			rounds[c][r] = round;
	}
	enum marrow_status status;
	MRW_TRY_GOTO(d->runtime->poke(d, comm->arena.base + l->packets_offset[0], flags, packets_bytes));
	MRW_TRY_GOTO(d->runtime->poke(d, control->channel, states, sizeof states));
	MRW_TRY_GOTO(d->runtime->poke(d, control->rounds, rounds, sizeof rounds));
fail:
	free(flags);
	return status;
}
