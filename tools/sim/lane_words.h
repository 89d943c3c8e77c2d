/* lane_words.h - the words of lane.h and move_transfers.h. Arenas are memory here: a lane's own part is what the bodies make of it. What goes into
 * another rank's arena is added to the step's parcel. Of payload in chunks memory holds the number that stands for it, at its first byte; in
 * packets it is the number's halves. Included once, by transfers.c. */
#ifndef SIM_LANE_WORDS_H
#define SIM_LANE_WORDS_H

#define MRW_FAR_H
#define MRW_OPERATION_H

#include "vocabulary.h"
#include "cluster.h"
#include "pairs.h"
#include "parcel.h"
#include "collectives/routes.h"
#include "device/stall.h"

/* A rank's requests to one peer by one lane. */
struct mrw_queue {
	uint64_t reserved, completed;
};

/* The step under way. */
static struct {
	struct sim_parcel *parcel;
	uint8_t *memory;            /* of all arenas */
	bool cuda;
	uint32_t source;            /* rank whose bytes the step takes */
	struct mrw_queue *queues;   /* [(rank * n + peer) * lanes + lane] */
	uint64_t near;              /* bytes for a rank of this host */
	bool no_memory;
	uint64_t grains;            /* pieces of a transfer that are told apart, at most */
	uint64_t *seen, *got;       /* [rank * words] a bit for each piece of each source that is there; [rank] bytes of them */
} sim_lanes;

/* Stands for bytes at offset of src's input. */
static uint64_t sim_piece(uint32_t src, uint64_t offset, uint64_t bytes)
{
	uint64_t x = (uint64_t)(src + 1) * 0x9e3779b97f4a7c15u ^ (offset + 1) * 0xbf58476d1ce4e5b9u ^ (bytes + 1) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return (x * 0xd6e8feb86659fd93u) | 1;
}

static uint64_t sim_take_in(const uint8_t *at, uint64_t bytes)
{
	return sim_piece(sim.args.rank, (uint64_t)(at - SIM_IN), bytes);
}

/* Pieces that a transfer of so many bytes comes in have their beginnings at multiples of this. */
static uint64_t sim_grain(uint64_t bytes)
{
	return mrw_transfer_width(&sim.args.layout, bytes, sim_lanes.cuda) > 0 ? MRW_TRANSFER_GRAIN : MRW_UNIT_BYTES;
}

static uint64_t sim_seen_words(void)
{
	return (sim.args.nranks * sim_lanes.grains + 63) / 64;
}

static void sim_put_out(const uint8_t *at, uint64_t bytes, uint64_t piece)
{
	uint32_t src = sim_lanes.source, rank = sim.args.rank;
	struct sim_move m = sim_move_of(&sim.args, src, rank);
	uint64_t offset = (uint64_t)(at - SIM_OUT) - m.to, place = src * sim_lanes.grains + offset / sim_grain(m.bytes);
	if (!m.is || offset >= m.bytes || bytes > m.bytes - offset) {
		sim_fault("rank %u puts %llu bytes of rank %u at %llu of its output, where they do not belong", rank, (unsigned long long)bytes, src,
			  (unsigned long long)(offset + m.to));
		return;
	}
	if (piece != sim_piece(src, m.from + offset, bytes)) {
		sim_fault("rank %u takes for %llu bytes at %llu of rank %u's block what is something else", rank, (unsigned long long)bytes,
			  (unsigned long long)offset, src);
		return;
	}
	uint64_t *word = &sim_lanes.seen[rank * sim_seen_words() + place / 64];
	if (*word >> place % 64 & 1)
		sim_fault("rank %u gets the bytes at %llu of rank %u's block twice", rank, (unsigned long long)offset, src);
	*word |= 1ull << place % 64;
	sim_lanes.got[rank] += bytes;
}

/* bytes for an arena, of which size lie at data. */
static void sim_put(uint8_t *at, const void *data, uint32_t size, uint32_t bytes)
{
	uint64_t room = sim.args.layout.bytes, rank = (uint64_t)(at - sim_lanes.memory) / room;
	sim.stored += rank == sim.args.rank ? bytes : 0;
	sim_lanes.near += rank == sim.args.rank ? 0 : bytes;
	if (rank == sim.args.rank)
		memcpy(at, data, size);
	else if (rank != sim_lanes.parcel->dst || !sim_same_host((uint32_t)rank, sim.args.rank))
		sim_fault("rank %u stores into the arena of rank %u in a step for rank %u", sim.args.rank, (uint32_t)rank, sim_lanes.parcel->dst);
	else if (!sim_parcel_add(sim_lanes.parcel, at, data, size))
		sim_lanes.no_memory = true;
}

static void sim_put_word(uint64_t *at, uint64_t value)
{
	sim_put((uint8_t *)at, &value, sizeof value, sizeof value);
}

/* Bodies ask what they are compiled for. */
#define mrw_transfer_small(layout, compiled) (mrw_transfer_small)(layout, sim_lanes.cuda)
#define mrw_publish sim_put_word
#define mrw_store_relaxed sim_put_word
#define mrw_copy sim_lane_copy
#define mrw_unit_load sim_lane_unit_load
#define mrw_unit_store sim_lane_unit_store
#define mrw_packet_send sim_lane_packet_send
#define mrw_store_packet sim_lane_packet_store
#define mrw_load_packet sim_lane_packet_load

static void sim_lane_copy(const struct mrw_team *team, uint8_t *dst, const uint8_t *src, uint32_t bytes)
{
	uint64_t piece = 0;
	(void)team;
	sim.loaded += bytes;
	if (src >= SIM_IN)
		piece = sim_take_in(src, bytes);
	else
		memcpy(&piece, src, sizeof piece);
	if (dst < SIM_OUT) {
		sim_put(dst, &piece, sizeof piece, bytes);
		return;
	}
	sim.stored += bytes;
	sim_put_out(dst, bytes, piece);
}

static void sim_lane_unit_load(const uint8_t *buffer, uint64_t index, uint64_t bytes, uint32_t payload[2])
{
	uint64_t left = bytes - index * MRW_UNIT_BYTES;
	uint64_t piece = sim_take_in(buffer + index * MRW_UNIT_BYTES, left < MRW_UNIT_BYTES ? left : MRW_UNIT_BYTES);
	sim.loaded += MRW_UNIT_BYTES;
	payload[0] = (uint32_t)piece;
	payload[1] = (uint32_t)(piece >> 32);
}

static void sim_lane_unit_store(const uint8_t *buffer, uint64_t index, uint64_t bytes, const uint32_t payload[2])
{
	uint64_t left = bytes - index * MRW_UNIT_BYTES;
	sim.stored += MRW_UNIT_BYTES;
	sim_put_out(buffer + index * MRW_UNIT_BYTES, left < MRW_UNIT_BYTES ? left : MRW_UNIT_BYTES, payload[0] | (uint64_t)payload[1] << 32);
}

static void sim_lane_packet_store(struct mrw_packet *at, struct mrw_packet v)
{
	sim_put((uint8_t *)at, &v, sizeof v, sizeof v);
}

static void sim_lane_packet_send(struct mrw_packet *at, uint32_t flag, const uint32_t payload[2])
{
	struct mrw_packet v = {{payload[0] | (uint64_t)flag << 32, payload[1] | (uint64_t)flag << 32}};
	sim_lane_packet_store(at, v);
}

static struct mrw_packet sim_lane_packet_load(const struct mrw_packet *at)
{
	sim.loaded += sizeof *at;
	return *at;
}

static bool mrw_packet_is(struct mrw_packet v, uint32_t flag)
{
	return v.unit[0] >> 32 == flag && v.unit[1] >> 32 == flag;
}

/* far.h */

static bool mrw_lane_is_far(const struct mrw_args *a, uint32_t p)
{
	return mrw_is_far(a, p);
}

static uint32_t mrw_lane_here(const struct mrw_args *a, uint32_t p)
{
	return mrw_writer_slot(a->rank, p);
}

static uint32_t mrw_lane_there(const struct mrw_args *a, uint32_t p)
{
	return mrw_writer_slot(p, a->rank);
}

static struct mrw_queue *mrw_far_queue(const struct mrw_args *a, uint32_t lane, uint32_t p)
{
	return &sim_lanes.queues[((uint64_t)a->rank * a->nranks + p) * a->layout.lanes + lane];
}

static bool mrw_poll_done(const struct mrw_queue *q, uint64_t index)
{
	return index < q->completed;
}

static bool mrw_far_reserve(const struct mrw_args *a, uint32_t lane, uint32_t p, uint32_t count, struct mrw_where w, uint64_t *index)
{
	struct mrw_queue *q = mrw_far_queue(a, lane, p);
	(void)w;
	*index = q->reserved;
	q->reserved += count;
	return true;
}

static void mrw_far_range(const struct mrw_args *a, uint32_t lane, uint32_t p, uint64_t index, bool flag, uint64_t from, uint64_t to, uint32_t bytes)
{
	bool chunk = to >= a->layout.lane_staging_offset;
	(void)lane;
	(void)index;
	(void)flag;
	sim_lanes.parcel->bytes += bytes;
	sim_lanes.parcel->requests++;
	if (!sim_parcel_fetch(sim_lanes.parcel, a->arena[p] + to, a->arena[a->rank] + from, chunk ? 8 : bytes))
		sim_lanes.no_memory = true;
}

static void mrw_far_word(const struct mrw_args *a, uint32_t lane, uint32_t p, uint64_t index, uint64_t to, uint64_t value)
{
	(void)lane;
	(void)index;
	sim_lanes.parcel->bytes += sizeof value;
	sim_lanes.parcel->requests++;
	if (!sim_parcel_add(sim_lanes.parcel, a->arena[p] + to, &value, sizeof value))
		sim_lanes.no_memory = true;
}

static void mrw_post_ready(struct mrw_queue *q, uint64_t index, uint32_t count)
{
	sim_lanes.parcel->queue = q;
	sim_lanes.parcel->behind = index + count;
}

/* fault.h, flag.h */

static void mrw_raise(const struct mrw_args *a, uint32_t kind, struct mrw_where w, uint64_t cause, uint64_t waited_ns)
{
	(void)cause;
	(void)waited_ns;
	sim_fault("rank %u finds a fault of kind %u: rank %u moves something else", a->rank, kind, w.peer);
}

static void mrw_leave(const struct mrw_args *a, struct mrw_where w, uint64_t poison)
{
	mrw_raise(a, (uint32_t)poison, w, 0, 0);
}

/* Ends a look at lanes of which none can go on. */
static uint64_t mrw_look_with(const struct mrw_args *a, struct mrw_where w, uint64_t poison, uint64_t since, uint32_t looks)
{
	(void)poison;
	return mrw_look(a, w, since, looks);
}

#include "device/transfer.h"
/* Sets of lanes as the library has them. */
#undef MRW_ALL_ROUTES
#define MRW_ALL_ROUTES (MRW_WAYS * (SIM_LIBRARY_RANKS - 1))
#include "collectives/move_transfers.h"

#endif
