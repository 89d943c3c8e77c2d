/* branch.h - what the algorithms in trees share (tree.h): one rank's place in each tree, and results on their way. far.h's at[] is the ring;
 * positions in the trees are those in the ring. */
#ifndef MRW_BRANCH_H
#define MRW_BRANCH_H

#include "peer.h"
#include "tree.h"
#include "device/copy.h"
#include "device/packet.h"

/* Rank of a neighbour by number. */
MRW_DEV uint32_t mrw_branch_rank(const struct mrw_args *a, uint32_t which, uint32_t neighbour)
{
	return a->far->tree[which].neighbour[neighbour];
}

MRW_DEV bool mrw_branch_is_leaf(const struct mrw_args *a, uint32_t which)
{
	return mrw_branch_rank(a, which, MRW_TREE_FIRST) == MRW_TREE_NONE;
}

/* Position of a call's root. */
MRW_DEV uint32_t mrw_branch_root(const struct mrw_args *a)
{
	uint32_t position = 0;
	while (mrw_has_root(a->call.func) && a->far->at[position] != a->call.root && position + 1 < a->nranks)
		position++;
	return position;
}

/* In both trees. */
struct mrw_flows {
	struct mrw_tree_flow in[MRW_TREES];
};

MRW_DEV_CALL struct mrw_flows mrw_branch_flows(const struct mrw_args *a)
{
	struct mrw_flows f;
	for (uint32_t k = 0; k < MRW_TREES; k++)
		f.in[k] = mrw_tree_flow_of(a->call.func, a->nranks, k, a->far->host, mrw_branch_root(a));
	return f;
}

/* Chunk index of a tree's part, as a span of the buffer. */
MRW_DEV struct mrw_chunk mrw_branch_chunk(const struct mrw_args *a, uint32_t which, uint32_t channel, uint64_t index)
{
	struct mrw_span part = mrw_tree_part(a->bytes, which);
	struct mrw_chunk chunk = mrw_chunk(part.bytes, a->call.chunk_bytes, a->call.channels, channel, index);
	chunk.offset += part.offset;
	return chunk;
}

MRW_DEV uint64_t mrw_branch_chunks(const struct mrw_args *a, uint32_t which, uint32_t channel)
{
	return mrw_chunks(mrw_tree_part(a->bytes, which).bytes, a->call.chunk_bytes, a->call.channels, channel);
}

MRW_DEV_CALL uint64_t mrw_branch_rounds(const struct mrw_args *a, uint32_t channel)
{
	return mrw_tree_rounds(a->call.func, a->nranks, mrw_branch_root(a), mrw_tree_parts(a->bytes), mrw_branch_chunks(a, 0, channel));
}

/* What a neighbour sent in the round before. */
MRW_DEV const uint8_t *mrw_branch_came(const struct mrw_args *a, uint32_t which, uint32_t channel, uint32_t neighbour, uint64_t round)
{
	return mrw_staging_from(a, which, channel, mrw_branch_rank(a, which, neighbour), round - a->call.lag);
}

/* bytes to the neighbours in to. */
MRW_DEV_CALL void mrw_branch_stage(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint64_t round,
				   uint32_t to, const uint8_t *src, uint32_t bytes)
{
	for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++) {
		if (!(to >> i & 1))
			continue;
		uint32_t p = mrw_branch_rank(a, which, i);
		mrw_copy(team, mrw_staging_to(a, which, channel, p, round), src, bytes);
		mrw_stage_note(team, a, which, channel, p, round, bytes);
	}
}

/* Chunk index of the results, which came, goes on. */
MRW_DEV_CALL void mrw_branch_pass(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint64_t round,
				  struct mrw_tree_flow flow, uint64_t index)
{
	struct mrw_chunk c = mrw_branch_chunk(a, which, channel, index);
	const uint8_t *src = mrw_branch_came(a, which, channel, flow.from, round);
	mrw_branch_stage(team, which, channel, a, round, flow.to, src, c.bytes);
	if (flow.takes)
		mrw_copy(team, a->out + c.offset, src, c.bytes);
}

/* Packets: this channel's units of a tree's part. */
struct mrw_twigs {
	struct mrw_span part;
	uint32_t first, count;
};

MRW_DEV struct mrw_twigs mrw_twigs_of(const struct mrw_args *a, uint32_t which, uint32_t channel)
{
	struct mrw_twigs t;
	t.part = mrw_tree_part(a->bytes, which);
	t.first = channel * a->units;
	t.count = (uint32_t)mrw_units_in(t.part.bytes, t.first, a->units);
	return t;
}

/* Unit i to the places of the neighbours in to. */
MRW_DEV void mrw_twig_put(uint32_t which, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t to, uint32_t i, const uint32_t payload[2])
{
	for (uint32_t k = 0; k < MRW_TREE_NEIGHBOURS; k++)
		if (to >> k & 1)
			mrw_packet_send(mrw_packets_to(a, which, channel, mrw_branch_rank(a, which, k), seq & 1) + i, seq, payload);
}

/* Waits for unit i of a neighbour. */
MRW_DEV bool mrw_twig_take(uint32_t which, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t neighbour, uint32_t i,
			   uint32_t payload[2])
{
	uint32_t p = mrw_branch_rank(a, which, neighbour);
	struct mrw_where w = {seq, channel, p, MRW_WAIT_PACKET, 0, 0};
	return mrw_wait_packet(a, mrw_packets_from(a, which, channel, p, seq & 1) + i, w, payload);
}

/* What the team has put into the outbox for the neighbours in to goes out, one message to each; behind a sync. All of a channel's posts are
 * one thread's: whoever is told last in both trees has the later mark. */
MRW_DEV_CALL bool mrw_twigs_post(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint32_t seq, uint32_t to,
				 uint32_t count)
{
	bool ok = true;
	for (uint32_t k = 0; k < MRW_TREE_NEIGHBOURS && ok && count > 0 && mrw_team_high(team) == 0; k++)
		if ((to >> k & 1) && mrw_is_far(a, mrw_branch_rank(a, which, k)))
			ok = mrw_packets_push(a, which, channel, mrw_branch_rank(a, which, k), seq, count);
	return ok;
}

/* Results that come by tree which, taken and sent on. ok: this thread's state; every thread comes here. */
MRW_DEV_CALL bool mrw_twigs_pass(const struct mrw_team *team, uint32_t which, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				 struct mrw_tree_flow flow, bool ok)
{
	struct mrw_twigs t = mrw_twigs_of(a, which, channel);
	if (flow.from == MRW_TREE_NONE)
		return ok;
	for (uint32_t i = team->index; ok && i < t.count; i += team->size) {
		uint32_t payload[2];
		ok = mrw_twig_take(which, channel, a, seq, flow.from, i, payload);
		if (!ok)
			break;
		mrw_twig_put(which, channel, a, seq, flow.to, i, payload);
		if (flow.takes)
			mrw_unit_store(a->out + t.part.offset, (uint64_t)t.first + i, t.part.bytes, payload);
	}
	if (flow.to == 0)
		return ok;
	if (mrw_team_any(team, !ok))
		return false;
	return mrw_twigs_post(team, which, channel, a, seq, flow.to, t.count);
}

/* The same for both trees, those first in which this rank has children: nobody above waits for what it does as a leaf. */
MRW_DEV bool mrw_twigs_pass_all(const struct mrw_team *team, uint32_t channel, const struct mrw_args *a, uint32_t seq,
				const struct mrw_flows *flows, bool ok)
{
	for (uint32_t leaf = 0; leaf < 2; leaf++)
		for (uint32_t k = 0; k < mrw_tree_parts(a->bytes); k++)
			if (mrw_branch_is_leaf(a, k) == (leaf == 1))
				ok = mrw_twigs_pass(team, k, channel, a, seq, flows->in[k], ok);
	return ok;
}

#endif
