/* prove.h - every path proved with data at init: store here, read there.
 *
 * Each rank fills its slot of the first staging at every peer, of a lane's staging at ranks that are no peers, with a pattern of (writer,
 * reader), publishes a token, then checks what the others wrote; one channel for each NIC. A path that is granted but loses or redirects writes (ACS, IOMMU, virtual machines) fails here,
 * by name, instead of in the first training step. Runs once, before any operation. */
#ifndef MRW_PROVE_H
#define MRW_PROVE_H

#include "peer.h"
#include "schedule.h"
#include "device/line.h"

#define MRW_PROOF_TOKEN 0x50524f4f46ull

MRW_DEV uint64_t mrw_proof_word(uint32_t writer, uint32_t reader, uint32_t i)
{
	return ((uint64_t)(writer + 1) << 48 | (uint64_t)(reader + 1) << 32 | (i + 1)) * 0x9e3779b97f4a7c15ull;
}

/* Where p's pattern lies in this rank's arena, and this rank's in p's. */
MRW_DEV uint64_t mrw_pattern_here(const struct mrw_args *a, uint32_t channel, uint32_t p)
{
	if (mrw_is_peer(a, p))
		return mrw_staging_offset(&a->layout, 0, channel, mrw_slot_here(a, p), 0);
	return mrw_lane_chunk_offset(&a->layout, 0, mrw_lane_here(a, p), 0) + channel * MRW_TRANSFER_GRAIN;
}

MRW_DEV uint64_t mrw_pattern_there(const struct mrw_args *a, uint32_t channel, uint32_t p)
{
	if (mrw_is_peer(a, p))
		return mrw_staging_offset(&a->layout, 0, channel, mrw_slot_there(a, p), 0);
	return mrw_lane_chunk_offset(&a->layout, 0, mrw_lane_there(a, p), 0) + channel * MRW_TRANSFER_GRAIN;
}

/* Larger than the MTU, either of them. */
MRW_DEV uint32_t mrw_pattern_bytes(const struct mrw_args *a, uint32_t p)
{
	return mrw_is_peer(a, p) ? a->layout.chunk_bytes : MRW_TRANSFER_GRAIN;
}

/* Pattern and token to a rank on another host. */
MRW_DEV_CALL bool mrw_proof_send(const struct mrw_args *a, uint32_t channel, uint32_t p)
{
	struct mrw_where w = {0, channel, p, MRW_WAIT_SEND, 0, 0};
	const struct mrw_layout *l = &a->layout;
	uint64_t index;
	if (!mrw_far_reserve(a, channel, p, 2, w, &index))
		return false;
	mrw_far_range(a, channel, p, index, false, l->outbox + mrw_pattern_here(a, channel, p), mrw_pattern_there(a, channel, p),
		      mrw_pattern_bytes(a, p));
	mrw_far_word(a, channel, p, index + 1, mrw_proof_offset(l, channel, mrw_lane_there(a, p)), MRW_PROOF_TOKEN);
	if (mrw_is_peer(a, p))
		*mrw_posted_at(l, a->arena[a->rank], MRW_POSTED_ROUND, channel, 0, mrw_slot_here(a, p)) = index + 2;
	mrw_post_ready(mrw_far_queue(a, channel, p), index, 2);
	return true;
}

/* Lanes do not know what lies in their outbox: until the NIC has done with it. Nobody else posts to p by channel's queue pair. */
MRW_DEV_CALL bool mrw_proof_settled(const struct mrw_args *a, uint32_t channel, uint32_t p)
{
	struct mrw_queue *q = mrw_far_queue(a, channel, p);
	struct mrw_where w = {0, channel, p, MRW_WAIT_SEND, mrw_load_relaxed(&q->ready), 0};
	uint64_t since = 0;
	for (uint32_t spins = 0; !mrw_poll_done(q, w.expected - 1); spins++) {
		if (spins % MRW_POLLS_A_LOOK == MRW_POLLS_A_LOOK - 1 || mrw_load_relaxed(&q->failed) != 0) {
			w.seen = mrw_load_relaxed(&q->completed);
			since = mrw_look(a, w, since, spins / MRW_POLLS_A_LOOK);
			if (since == 0)
				return false;
		}
		mrw_pause(spins, a->spin_limit);
	}
	return true;
}

#if MRW_ON_CUDA
#define MRW_TRIAL_LINES 4000u
#define MRW_TRIAL_NS 100000000u

/* Whether lines (device/line.h) arrive whole: the slots of channel 0 are written over and over, unasked, while the reader looks. False: a
 * line was torn, or the last one did not come. */
MRW_DEV_CALL bool mrw_lines_try(const struct mrw_team *team, const struct mrw_args *a)
{
	bool torn = false;
	uint32_t lane = mrw_line_lane(team), line = team->index / MRW_LINE_LANES;
	if (mrw_line_first(team) + 32 / MRW_LINE_LANES > a->layout.lines) /* by whole warps */
		return true;
	for (uint32_t q = 1; q < a->nranks; q++) {
		uint32_t to = mrw_peer(a, q), from = (a->rank + a->nranks - q) % a->nranks;
		uint8_t *theirs = mrw_line_at(&a->layout, a->arena[to], 0, mrw_writer_slot(to, a->rank), 0, line);
		const uint8_t *mine = mrw_line_at(&a->layout, a->arena[a->rank], 0, mrw_writer_slot(a->rank, from), 0, line);
		uint64_t until = mrw_clock_ns() + MRW_TRIAL_NS;
		uint32_t sent = 0, seen = 0;
		while (!mrw_line_all(sent >= MRW_TRIAL_LINES && seen >= MRW_TRIAL_LINES)) { /* lanes go together */
			if (sent < MRW_TRIAL_LINES)
				mrw_line_try_store(theirs, lane, ++sent);
			uint32_t now = mrw_line_try_load(mine, lane, &torn);
			torn = torn || now < seen; /* back in time */
			seen = now > seen ? now : seen;
			if (!mrw_line_all(mrw_clock_ns() < until)) {
				torn = true;
				break;
			}
		}
	}
	return !torn;
}
#else
/* Lines of the host target are whole by acquire and release. */
MRW_DEV bool mrw_lines_try(const struct mrw_team *team, const struct mrw_args *a)
{
	(void)team;
	(void)a;
	return true;
}
#endif

MRW_DEV void mrw_prove(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a)
{
	const struct mrw_layout *l = &a->layout;
	uint8_t *mine = a->arena[a->rank];
	for (uint32_t p = 0; p < a->nranks; p++) {
		if (p == a->rank)
			continue;
		mrw_stall(channel + 728);
		uint8_t *to = mrw_lane_is_far(a, p) ? mine + l->outbox + mrw_pattern_here(a, channel, p) : a->arena[p] + mrw_pattern_there(a, channel, p);
		for (uint32_t i = team->index; i < mrw_pattern_bytes(a, p) / 8; i += team->size)
			((uint64_t *)(void *)to)[i] = mrw_proof_word(a->rank, p, i);
	}
	mrw_team_sync(team);
	bool ok = true;
	for (uint32_t p = team->index; ok && p < a->nranks; p += team->size)
		if (mrw_lane_is_far(a, p))
			ok = mrw_proof_send(a, channel, p);
		else if (p != a->rank)
			mrw_publish(mrw_proof_at(l, a->arena[p], channel, mrw_lane_there(a, p)), MRW_PROOF_TOKEN);
	for (uint32_t p = team->index; ok && p < a->nranks; p += team->size) {
		struct mrw_where w = {0, channel, p, MRW_WAIT_PROOF, 0, 0};
		if (p != a->rank)
			ok = mrw_wait_reached(a, mrw_proof_at(l, mine, channel, mrw_lane_here(a, p)), MRW_PROOF_TOKEN, w);
		if (ok && mrw_lane_is_far(a, p) && !mrw_is_peer(a, p))
			ok = mrw_proof_settled(a, channel, p);
	}
	if (mrw_team_any(team, !ok))
		return;
	for (uint32_t p = 0; p < a->nranks; p++) {
		if (p == a->rank)
			continue;
		const uint64_t *slot = (const uint64_t *)(const void *)(mine + mrw_pattern_here(a, channel, p));
		for (uint32_t i = team->index; i < mrw_pattern_bytes(a, p) / 8; i += team->size) {
			struct mrw_where w = {0, channel, p, MRW_WAIT_PROOF, mrw_proof_word(p, a->rank, i), slot[i]};
			if (w.seen != w.expected) {
				mrw_raise(a, MRW_FAULT_PROOF, w, 0, 0);
				break;
			}
		}
	}
	if (a->layout.lines > 0 && !mrw_lines_try(team, a))
		mrw_store_relaxed(&a->page->torn, 1);
}

#endif
