/* wire.h - every word that another rank can see.
 *
 * An arena is the one block of memory a rank shares, but for buffers that users register: mapped by the ranks of its host, written by the NIC for all others. It starts with struct mrw_control and is
 * followed by packet slots and staging, whose place mrw_layout_make() yields. Each remotely written byte belongs for life to one
 * (format, channel, writer): packets never overlay staging, so a payload never looks like a flag.
 *
 * Peers. The peers of a rank are those it exchanges anything with: all other ranks; along rails the ranks of its host and the ranks of
 * its rail; in a ring or in trees its neighbours. Everything a peer writes here lies at the peer's slot, a number below mrw_layout.slots; all that is said of peers below
 * holds for each pair of peers by itself. Lanes are another matter: all pairs of ranks have them, peers or not, and they lie at slots by rank.
 *
 * Why slots may be reused. Kernels of one rank run one after the other. Kernel s of a rank leaves only after it saw the opening
 * line of seq s of every peer (channel 0). So when kernel s starts here, every peer has started its kernel s-1, hence
 * finished s-2, hence read everything we sent it in s-2. Two parities of packets, openings and calls therefore suffice,
 * whatever the channel counts, and no credit is sent.
 *
 * Across hosts the same holds for a slot of this rank's outbox, which goes to a peer's slot, once its request has also completed: a NIC whose
 * acknowledgement was lost reads its source again (device/send.h).
 *
 * Rounds. Bulk transfers advance in rounds, numbered without end per channel, the same on all ranks. A slot written in round t is
 * read in the reader's round t + lag, and a rank enters round t only after every peer has completed round t - lag. With
 * MRW_ROUND_SLOTS = 2 * MRW_MAX_LAG slots the slot written in t was read in t - 2 lag + lag: one counter a peer is data flag and
 * credit at once. A later operation may use another lag (schedule.h).
 *
 * Transfers. Every ordered pair of ranks numbers its transfers without end, alike at both ends, and has lanes of its own, each with a
 * packet slot of two parities, MRW_LANE_SLOTS chunks of staging and counters. Lane (number mod lanes) is the transfer's home: there both ends
 * say what they mean to move, and a small one travels as packets; chunk c of a large one goes by lane (number + c) mod lanes. A lane
 * takes its transfers in the order of their numbers, so each is a queue of its own that nothing outside of its pair holds up.
 * Turn q of a lane is the transfer whose home it is for the q-th time. Both ends end turn q only after they heard each other in it, and the
 * receiver speaks in turn q + 1 only after it has read all of q: a sender in turn q + 2 has heard that, so lines and
 * packets of two parities suffice. Chunks have a credit: the receiver's count of what it took. */
#ifndef MRW_WIRE_H
#define MRW_WIRE_H

#include "order.h"

/* Compared at bootstrap: change it with any change of a word's place or meaning. */
#define MRW_WIRE_VERSION 11u

#ifndef MRW_MAX_RANKS         /* a simulation on paper has more */
#define MRW_MAX_RANKS 64u    /* of a communicator */
#endif
#define MRW_MAX_NEAR 16u     /* of those on one host */
#define MRW_MAX_NICS 4u      /* that one rank uses */
#define MRW_MAX_CHANNELS 64u
#define MRW_FORMATS 2u       /* first exchange (to the owner or to all), second exchange (results) */
#define MRW_MAX_LAG 1u         /* rounds a peer may be behind: large chunks and no lead beat small ones with a lead of two */
#define MRW_ROUND_SLOTS 2u
#define MRW_UNIT_BYTES 8u    /* payload of one packet (two units of 4 bytes) */
#define MRW_LINE_BYTES 128u  /* a line: payload and, in its last 8 bytes, its flag (line.h) */
#define MRW_LINE_UNITS 15u   /* of payload in a line */
#define MRW_LANE_SLOTS 2u    /* chunks of a lane under way */
#define MRW_TREE_PEERS 6u    /* most peers of a rank in trees: two children, two parents, two neighbours in the ring */
#define MRW_TREE_NONE UINT32_MAX
#define MRW_MAX_WINDOWS 32u /* of a communicator */

/* A call, as compared between ranks and printed when they differ. */
struct mrw_call {
	uint32_t seq;        /* low half of word 0; not hashed: set by the kernel */
	uint8_t func;        /* enum mrw_func */
	uint8_t type;        /* enum marrow_type */
	uint8_t op;          /* 0 where no reduction */
	uint8_t algo;        /* enum mrw_algo */
	uint32_t root;
	uint32_t channels;
	uint64_t count;      /* elements, as the user gave it */
	uint32_t chunk_bytes;
	uint32_t lag;
	uint64_t hash;       /* of all the above but seq; repeated in the opening line */
	uint64_t blocks;     /* reduce_scatter_v, all_gather_v: 64 bits over its blocks, else 0 */
	uint64_t windows;    /* 1: the opening lines say places too */
	uint64_t reserved;
};
MRW_STATIC_ASSERT(sizeof(struct mrw_call) == 64, "a call is one half line");

/* Opening line of one operation, from one peer's channel 0. Writer: that peer. Reader: owner, any channel.
 * unit[0] = low half of the call's hash | seq << 32; unit[1] = high half | seq << 32: each complete by itself.
 * unit[2..3], where the call has windows: the halves of mrw_place() of the writer's output, each | seq << 32; unit[3] is published last, so that whoever
 * observes it may write there. */
struct mrw_opening {
	uint64_t unit[4];
};
MRW_STATIC_ASSERT(sizeof(struct mrw_opening) == 32, "an opening is one sector");

/* What a rank says of an operation. Ranks of its host get the line and read the call in the writer's arena; ranks of other hosts get
 * both, in one message. The words of a message come in any order: a call is good once it hashes to the line's hash. */
struct mrw_greeting {
	struct mrw_call call;
	struct mrw_opening line;
};
MRW_STATIC_ASSERT(sizeof(struct mrw_greeting) == 96, "whole sectors");

/* A window of a communicator on one host: where this rank has it mapped. Written by the owner's host while no kernel uses it: its id has not been said
 * yet, or all operations are over. */
struct mrw_window {
	uint64_t id;                  /* never used again in this communicator; 0: none */
	uint8_t *base[MRW_MAX_NEAR];  /* of rank p's buffer; the owner's own is where the user sees it */
};

/* Where output may be written directly: offset in window number slot of its rank. 0: nowhere. */
#define MRW_PLACE_SHIFT 56
MRW_PURE uint64_t mrw_place(uint32_t slot, uint64_t offset) { return (uint64_t)(slot + 1) << MRW_PLACE_SHIFT | offset; }
MRW_PURE uint32_t mrw_place_slot(uint64_t place) { return (uint32_t)(place >> MRW_PLACE_SHIFT) - 1; }
MRW_PURE uint64_t mrw_place_offset(uint64_t place) { return place & ((1ull << MRW_PLACE_SHIFT) - 1); }

/* State of one channel; only its owner touches it. */
struct mrw_channel_state {
	uint64_t word;  /* bits 0-31 seq of the last finished operation, bit 63 busy: a kernel is between begin and end */
	uint64_t round; /* rounds completed */
};
#define MRW_CHANNEL_BUSY (1ull << 63)

struct mrw_control {
	/* 0, or why all must leave: mrw_cause(). Writers: anybody, any time, the last wins. Readers: owner's slow waits and begins. */
	uint64_t poison;
	/* 0, or 1 once somebody of the owner writes the fault record. Compare-and-swap by the owner's kernels. */
	uint64_t fault_claim;
	/* seq + 1 of the operation whose long wait was noted. Compare-and-swap by the owner's kernels. */
	uint64_t note_claim;
	/* What the owner last told its peers at mrw_stuck_at(), and when (compare-and-swap by the owner's kernels). */
	uint64_t told, told_ns;
	uint64_t pad0[11];
	struct mrw_channel_state channel[MRW_MAX_CHANNELS];
	/* What the owner says of the last two operations, by parity. Writer: owner's channel 0. Readers: its NICs; peers that found a
	 * mismatch, of the call: they reread until seq and hash agree with the opening line; whoever prints one hashes it again, for its
	 * words may come in any order. */
	struct mrw_greeting said[2];
	uint64_t pad1[8];
};
MRW_STATIC_ASSERT(offsetof(struct mrw_control, channel) == 128, "layout");
MRW_STATIC_ASSERT(offsetof(struct mrw_control, said) == 128 + 16 * MRW_MAX_CHANNELS, "layout");
MRW_STATIC_ASSERT(sizeof(struct mrw_control) == offsetof(struct mrw_control, said) + 256, "layout");

/* What one end of a transfer says to the other. unit[0..1]: low and high half of its bytes; unit[2]: enum mrw_func (a recv says send) | type
 * << 8; each | flag << 32, flag = low bits of the transfer's number + 1. unit[3] is 0. */
struct mrw_line {
	uint64_t unit[4];
};
MRW_STATIC_ASSERT(sizeof(struct mrw_line) == 32, "a line is one sector");

/* Which way a lane of the owner goes. */
enum mrw_way { MRW_WAY_OUT, MRW_WAY_IN, MRW_WAYS };

/* One lane to or from one peer, in its owner's arena. The peer's half, then the owner's, which no one else sees. */
struct mrw_lane {
	/* [turn & 1] relaxed, ordered after a scrub; partner: mrw_lane_hear(). */
	struct mrw_line heard[2];
	/* IN: chunks the peer has put here; OUT: chunks the peer has taken. Published; partner: mrw_lane_ready(). Wraps never. */
	uint64_t count;
	uint64_t pad0[7];
	uint64_t first;     /* number of the pair's first transfer in the launch under way, or the next launch */
	uint64_t chunks;    /* moved by this lane since ever */
	/* The launch under way: which of its transfers of the pair, enum mrw_step, the lane's next chunk in it. 0 between launches. */
	uint32_t place, step;
	uint64_t chunk;
	/* Ranks on other hosts: WQEBBs behind which the request lies that used the outbox, by turn's parity and by slot. */
	uint64_t posted_line[2], posted_chunk[MRW_LANE_SLOTS];
	uint64_t base;      /* the same as first, for the team that has this number among those of its route, before it knows which lanes are its own */
	uint64_t pad1[7];
};
MRW_STATIC_ASSERT(offsetof(struct mrw_lane, first) == 128, "halves in lines of their own");
MRW_STATIC_ASSERT(sizeof(struct mrw_lane) == 256, "whole lines");

/* Sizes of an arena's parts: equal on all ranks of a communicator. Last, before the arenas in mrw_args, what every small call reads. */
struct mrw_layout {
	uint32_t cells;             /* chunks of a near staging slot: one for each host */
	uint32_t chunk_bytes;       /* bytes of a chunk's place in staging, a multiple of 512 */
	uint32_t packet_formats;    /* formats of packets that there are */
	uint32_t counters;          /* round counters a channel: slots, and what fills their line */
	uint32_t ring;              /* 1: peers are the neighbours in a ring */
	uint32_t tree;              /* 1: peers are the neighbours in two trees and in a ring; some ranks leave slots empty */
	uint32_t lane_slots;        /* all other ranks, peers or not: mrw_writer_slot() */
	uint32_t lanes;             /* of an ordered pair; one, or of all pairs of a rank together at most 64, both ways */
	uint32_t lane_shift;        /* lanes = 1 << lane_shift */
	uint32_t lane_units;        /* packets a (lane, slot, parity) */
	uint32_t lane_chunk_bytes;  /* bytes of a lane's staging slot, a multiple of 4096 */
	uint32_t lines;             /* lines a (channel, slot, parity), one host only; 0: none */
	uint64_t lanes_offset, lane_packets_offset, lane_staging_offset;
	uint64_t near_packets_offset[MRW_FORMATS], near_staging_offset[MRW_FORMATS]; /* slots below near_slots */
	uint64_t proof_offset, stuck_offset;  /* mrw_proof_at(), mrw_stuck_at() */
	/* Ranks on several hosts only, else 0. The place of a slot from near_slots on, or of a lane, plus outbox, is where this rank keeps what it
	 * sends to the rank whose slot here that is; it may be rewritten when the place it goes to may and its request has completed: until then
	 * the NIC may send it again. */
	uint64_t outbox;
	uint64_t notes_offset;      /* mrw_note_at(), mrw_posted_at(): owner only */
	uint64_t bytes;
	uint64_t staging_offset[MRW_FORMATS]; /* slots from near_slots on */
	uint64_t rounds_offset;     /* mrw_round_at() */
	uint32_t nranks;
	uint32_t channels;          /* channel cap */
	uint32_t slots;             /* peers of a rank */
	uint32_t near_slots;        /* along rails: the first slots, those of the ranks of this host; else 0 */
	uint32_t units;             /* packets a (format, channel, slot, parity) */
	uint32_t windows_offset;    /* mrw_window_at(); 0: none, ranks are on several hosts */
	uint64_t heard_offset, lines_offset;  /* mrw_heard_at(), mrw_line_at() */
	uint64_t packets_offset[MRW_FORMATS]; /* slots from near_slots on */
};

/* Of an operation (packets and greetings; parity of seq), of a round. */
enum mrw_posted_kind { MRW_POSTED_OPERATION, MRW_POSTED_ROUND, MRW_POSTED_KINDS };

/* What the arena may cost: parts shrink as ranks and channels grow. In all at most MRW_ARENA_MOST: what a communicator may take of a device less a page
 * (2 MiB) of queues and, in GPU memory, their rings. */
#define MRW_DEVICE_MOST (32ull << 20)
#define MRW_ARENA_MOST (29ull << 20)
#define MRW_PACKETS_BUDGET (4ull << 20)
#define MRW_LINES_BUDGET (5ull << 20)
#define MRW_STAGING_BUDGET (16ull << 20)
#define MRW_HOST_STAGING_BUDGET (8ull << 20)
#define MRW_MAX_UNITS 2048u
#define MRW_MAX_LINES 276u /* two ranks, 64 channels: 2 MiB in one shot */
#define MRW_MAX_CHUNK_BYTES (64u << 10)
#define MRW_MAX_FAR_CHUNK_BYTES (128u << 10) /* of lanes across hosts: what is under way between two ranks there */
#define MRW_LANE_PACKETS_BUDGET (512ull << 10)
#define MRW_LANE_STAGING_BUDGET (3ull << 20)
#define MRW_MAX_LANES 32u
#define MRW_MAX_LANE_UNITS 512u

/* How a communicator is spread: what a layout is made from. */
struct mrw_spread {
	uint32_t nranks, channels;
	uint32_t rails;             /* 1: peers are those of the host and of the rail */
	uint32_t hosts, per_host;   /* with rails; every host has per_host ranks */
	uint32_t outbox;            /* 1: ranks are on several hosts */
	uint32_t ring;              /* 1: peers are the left (slot 0) and the right neighbour; two ranks have one peer */
	uint32_t tree;              /* not 0: peers are the neighbours in two trees and in a ring, so many at most */
};

/* Control words that peers write: heard, proof, stuck, rounds. Returns where they end. */
MRW_PURE uint64_t mrw_layout_control(struct mrw_layout *l)
{
	uint64_t at = sizeof(struct mrw_control);
	l->heard_offset = at;
	at += (uint64_t)2 * l->slots * sizeof(struct mrw_greeting);
	l->proof_offset = at;
	at += (uint64_t)l->lane_slots * MRW_MAX_NICS * 8;
	l->stuck_offset = at;
	at += (uint64_t)l->slots * 8;
	at = (at + 127) / 128 * 128;
	l->counters = (l->slots + 15) / 16 * 16; /* a channel's counters share their lines with no other's */
	l->rounds_offset = at;
	at += (uint64_t)l->channels * l->counters * 8;
	return (at + 4095) / 4096 * 4096;
}

/* Packets and staging of slots slots of cells chunks each, from at on, lines between. Returns where they end. */
MRW_PURE uint64_t mrw_layout_slots(struct mrw_layout *l, uint64_t at, uint32_t slots, uint32_t cells, uint64_t packets[MRW_FORMATS],
				   uint64_t staging[MRW_FORMATS])
{
	uint64_t places = (uint64_t)l->channels * slots;
	for (uint32_t f = 0; f < MRW_FORMATS; f++) {
		packets[f] = at;
		if (f < l->packet_formats)
			at += places * 2 * l->units * sizeof(struct mrw_packet);
	}
	l->lines_offset = at;
	at += places * 2 * l->lines * MRW_LINE_BYTES;
	at = (at + 4095) / 4096 * 4096;
	for (uint32_t f = 0; f < MRW_FORMATS; f++) {
		staging[f] = at;
		at += places * MRW_ROUND_SLOTS * cells * l->chunk_bytes;
	}
	return (at + 4095) / 4096 * 4096;
}

/* Notes and posted counters of several hosts. */
MRW_PURE uint64_t mrw_layout_notes(const struct mrw_layout *l)
{
	uint64_t words = (uint64_t)l->channels * 2 * l->slots;
	return words * MRW_FORMATS * 4 + words * MRW_POSTED_KINDS * 8;
}

/* What the staging of lanes, in from at on and out, may take. Across hosts all that the arena has left: a chunk is on its way for microseconds, and
 * what a pair has under way is how fast it goes. */
MRW_PURE uint64_t mrw_layout_lane_staging(const struct mrw_layout *l, uint64_t at, bool outbox)
{
	uint64_t used = l->packets_offset[0] + 2 * (at - l->packets_offset[0]) + mrw_layout_notes(l) + 4 * 4096; /* whole pages */
	return outbox && MRW_ARENA_MOST > used + MRW_LANE_STAGING_BUDGET ? MRW_ARENA_MOST - used : MRW_LANE_STAGING_BUDGET;
}

/* The lanes, from at on. outbox: the budgets are for in and out together. Returns where they end. */
MRW_PURE uint64_t mrw_layout_lanes(struct mrw_layout *l, uint64_t at, bool outbox)
{
	uint64_t share = outbox ? 2 : 1;
	l->lanes_offset = at;
	/* A team for every lane each way, if channels allow. */
	uint32_t lanes = l->channels / (2 * l->lane_slots);
	while ((2u << l->lane_shift) <= lanes && (2u << l->lane_shift) <= MRW_MAX_LANES)
		l->lane_shift++;
	l->lanes = 1u << l->lane_shift;
	uint64_t writers = (uint64_t)l->lanes * l->lane_slots;
	uint64_t units = MRW_LANE_PACKETS_BUDGET / share / (writers * 2 * sizeof(struct mrw_packet));
	l->lane_units = units > MRW_MAX_LANE_UNITS ? MRW_MAX_LANE_UNITS : (uint32_t)units / 32 * 32;
	l->lane_packets_offset = at + MRW_WAYS * writers * sizeof(struct mrw_lane);
	l->lane_staging_offset = (l->lane_packets_offset + writers * 2 * l->lane_units * sizeof(struct mrw_packet) + 4095) / 4096 * 4096;
	uint64_t chunk = mrw_layout_lane_staging(l, l->lane_staging_offset, outbox) / share / (writers * MRW_LANE_SLOTS);
	uint64_t most = outbox ? MRW_MAX_FAR_CHUNK_BYTES : MRW_MAX_CHUNK_BYTES;
	l->lane_chunk_bytes = (uint32_t)((chunk > most ? most : chunk) / 4096 * 4096);
	return l->lane_staging_offset + writers * MRW_LANE_SLOTS * l->lane_chunk_bytes;
}

/* The one place where offsets are made. nranks >= 2. */
MRW_PURE struct mrw_layout mrw_layout_of(const struct mrw_spread *s, uint64_t packets_budget, uint64_t lines_budget, uint64_t staging_budget)
{
	struct mrw_layout l;
	memset(&l, 0, sizeof l);
	l.nranks = s->nranks;
	l.channels = s->channels;
	l.near_slots = s->rails ? s->per_host - 1 : 0;
	l.slots = s->rails ? s->per_host - 1 + s->hosts - 1 : s->nranks - 1;
	l.ring = s->ring;
	if (s->ring && l.slots > 2)
		l.slots = 2;
	l.lane_slots = s->nranks - 1;
	l.tree = s->tree > 0;
	if (s->tree)
		l.slots = s->tree;
	l.cells = s->rails ? s->hosts : 1;
	/* Along rails packets need no second exchange, nor do rings; nor do two ranks: a two-shot would send the same bytes as a one-shot, later. Each
	 * tree has a format. */
	l.packet_formats = s->tree || (s->nranks > 2 && !s->rails && !s->ring) ? MRW_FORMATS : 1;
	/* What is sent to other hosts lies here a second time. */
	uint64_t far = l.slots - l.near_slots, kept = s->outbox ? far : 0;
	uint64_t units = packets_budget / ((l.slots + kept) * s->channels * l.packet_formats * 2 * sizeof(struct mrw_packet));
	units = s->ring ? 32 : units > MRW_MAX_UNITS ? MRW_MAX_UNITS : units / 32 * 32; /* a ring sends none */
	uint64_t chunk = staging_budget / (((uint64_t)l.near_slots * l.cells + far + kept) * s->channels * MRW_FORMATS * MRW_ROUND_SLOTS);
	chunk = chunk > MRW_MAX_CHUNK_BYTES ? MRW_MAX_CHUNK_BYTES : chunk / 512 * 512;
	uint64_t lines = s->outbox ? 0 : lines_budget / ((uint64_t)l.slots * s->channels * 2 * MRW_LINE_BYTES); /* a NIC writes no whole lines */
	lines = lines > MRW_MAX_LINES ? MRW_MAX_LINES : lines / 4 * 4;
	l.units = (uint32_t)units;
	l.lines = (uint32_t)lines;
	l.chunk_bytes = (uint32_t)chunk;
	uint64_t at = mrw_layout_control(&l);
	if (!s->outbox) {
		l.windows_offset = (uint32_t)at;
		at = (at + MRW_MAX_WINDOWS * sizeof(struct mrw_window) + 4095) / 4096 * 4096;
	}
	at = mrw_layout_slots(&l, at, l.near_slots, l.cells, l.near_packets_offset, l.near_staging_offset);
	at = mrw_layout_slots(&l, at, l.slots - l.near_slots, 1, l.packets_offset, l.staging_offset);
	at = mrw_layout_lanes(&l, at, s->outbox);
	at = (at + 4095) / 4096 * 4096;
	if (s->outbox) {
		l.outbox = at - l.packets_offset[0];
		l.notes_offset = at + l.outbox;
		at = (l.notes_offset + mrw_layout_notes(&l) + 4095) / 4096 * 4096;
	}
	l.bytes = at;
	return l;
}

/* All ranks on one host. */
MRW_PURE struct mrw_layout mrw_layout_make(uint32_t nranks, uint32_t channels, uint64_t staging_budget)
{
	struct mrw_spread s = {nranks, channels, 0, 0, 0, 0, 0, 0};
	return mrw_layout_of(&s, MRW_PACKETS_BUDGET, MRW_LINES_BUDGET, staging_budget);
}

/* Several hosts: each budget holds what comes in and what goes out, but that of lanes' staging: mrw_layout_lane_staging(). */
MRW_PURE struct mrw_layout mrw_layout_spanning(uint32_t nranks, uint32_t channels, uint64_t staging_budget)
{
	struct mrw_spread s = {nranks, channels, 0, 0, 0, 1, 0, 0};
	return mrw_layout_of(&s, MRW_PACKETS_BUDGET, 0, staging_budget);
}

/* The same along rails. */
MRW_PURE struct mrw_layout mrw_layout_rails(uint32_t hosts, uint32_t per_host, uint32_t channels, uint64_t staging_budget)
{
	struct mrw_spread s = {hosts * per_host, channels, 1, hosts, per_host, 1, 0, 0};
	return mrw_layout_of(&s, MRW_PACKETS_BUDGET, 0, staging_budget);
}

/* The same in a ring. */
MRW_PURE struct mrw_layout mrw_layout_ring(uint32_t nranks, uint32_t channels, uint64_t staging_budget)
{
	struct mrw_spread s = {nranks, channels, 0, 0, 0, 1, 1, 0};
	return mrw_layout_of(&s, MRW_PACKETS_BUDGET, 0, staging_budget);
}

/* The same in trees; peers: most of a rank. */
MRW_PURE struct mrw_layout mrw_layout_tree(uint32_t nranks, uint32_t peers, uint32_t channels, uint64_t staging_budget)
{
	struct mrw_spread s = {nranks, channels, 0, 0, 0, 1, 0, peers};
	return mrw_layout_of(&s, MRW_PACKETS_BUDGET, 0, staging_budget);
}

/* Index of writer among all ranks but owner: a rank has no slots of its own. Slot of lanes, and of peers where all ranks are peers. */
MRW_PURE uint32_t mrw_writer_slot(uint32_t owner, uint32_t writer)
{
	return writer < owner ? writer : writer - 1;
}

/* What the peer with this slot said of the operations of a parity. Relaxed; partner: mrw_opening_seen(). */
MRW_PURE uint64_t mrw_heard_offset(const struct mrw_layout *l, uint32_t slot, uint32_t parity)
{
	return l->heard_offset + ((uint64_t)parity * l->slots + slot) * sizeof(struct mrw_greeting);
}

MRW_PURE struct mrw_greeting *mrw_heard_at(const struct mrw_layout *l, uint8_t *arena, uint32_t slot, uint32_t parity)
{
	return (struct mrw_greeting *)(void *)(arena + mrw_heard_offset(l, slot, parity));
}

MRW_PURE struct mrw_window *mrw_window_at(const struct mrw_layout *l, uint8_t *arena, uint32_t slot)
{
	return (struct mrw_window *)(void *)(arena + l->windows_offset) + slot;
}

/* Token of the path proof at init, by channel (one for each NIC) and slot of lanes: published after the pattern in staging, or in a lane's;
 * partner: mrw_prove(). */
MRW_PURE uint64_t mrw_proof_offset(const struct mrw_layout *l, uint32_t channel, uint32_t slot)
{
	return l->proof_offset + ((uint64_t)slot * MRW_MAX_NICS + channel) * 8;
}

MRW_PURE uint64_t *mrw_proof_at(const struct mrw_layout *l, uint8_t *arena, uint32_t channel, uint32_t slot)
{
	return (uint64_t *)(void *)(arena + mrw_proof_offset(l, channel, slot));
}

/* Along rails: for whom the peer with this slot has been waiting for long: rank + 1 | seq << 32. 0: nobody. Relaxed; a hint for who gives up
 * on that peer: the one to blame is further on. */
MRW_PURE uint64_t mrw_stuck_offset(const struct mrw_layout *l, uint32_t slot)
{
	return l->stuck_offset + (uint64_t)slot * 8;
}

MRW_PURE uint64_t *mrw_stuck_at(const struct mrw_layout *l, uint8_t *arena, uint32_t slot)
{
	return (uint64_t *)(void *)(arena + mrw_stuck_offset(l, slot));
}

/* Rounds that the peer with this slot has completed on channel: published; partner: mrw_rounds_wait(). Wraps never (2^64). */
MRW_PURE uint64_t mrw_round_offset(const struct mrw_layout *l, uint32_t channel, uint32_t slot)
{
	return l->rounds_offset + ((uint64_t)channel * l->counters + slot) * 8;
}

MRW_PURE uint64_t *mrw_round_at(const struct mrw_layout *l, uint8_t *arena, uint32_t channel, uint32_t slot)
{
	return (uint64_t *)(void *)(arena + mrw_round_offset(l, channel, slot));
}

/* CUDA kernels are compiled more than once: without everything about other hosts, and (-DMRW_FAR=1) with it, for communicators that span hosts. It costs
 * registers and stack that the others need not pay. */
#ifndef MRW_FAR
#define MRW_FAR !MRW_ON_CUDA
#endif

/* Offset of the first packet of (format, channel, slot, parity). */
MRW_PURE uint64_t mrw_packets_offset(const struct mrw_layout *l, uint32_t format, uint32_t channel, uint32_t slot, uint32_t parity)
{
	if (MRW_FAR && slot < l->near_slots)
		return l->near_packets_offset[format] +
		       (((uint64_t)channel * l->near_slots + slot) * 2 + parity) * l->units * sizeof(struct mrw_packet);
	uint64_t index = ((uint64_t)channel * (l->slots - l->near_slots) + slot - l->near_slots) * 2 + parity;
	return l->packets_offset[format] + index * l->units * sizeof(struct mrw_packet);
}

MRW_PURE struct mrw_packet *mrw_packets_at(const struct mrw_layout *l, uint8_t *arena, uint32_t format, uint32_t channel,
					   uint32_t slot, uint32_t parity)
{
	return (struct mrw_packet *)(void *)(arena + mrw_packets_offset(l, format, channel, slot, parity));
}

/* Line of (channel, slot, parity). */
MRW_PURE uint8_t *mrw_line_at(const struct mrw_layout *l, uint8_t *arena, uint32_t channel, uint32_t slot, uint32_t parity, uint32_t line)
{
	uint64_t index = ((uint64_t)channel * l->slots + slot) * 2 + parity;
	return arena + l->lines_offset + (index * l->lines + line) * MRW_LINE_BYTES;
}

/* Bytes from one slot's staging to the next one's. */
MRW_PURE uint64_t mrw_staging_stride(const struct mrw_layout *l, bool near)
{
	return (uint64_t)MRW_ROUND_SLOTS * (near ? l->cells : 1) * l->chunk_bytes;
}

/* Offset of the staging of (format, channel, slot, round): one chunk, or cells of them for a near slot. */
MRW_PURE uint64_t mrw_staging_offset(const struct mrw_layout *l, uint32_t format, uint32_t channel, uint32_t slot, uint64_t round)
{
	if (MRW_FAR && slot < l->near_slots)
		return l->near_staging_offset[format] + ((uint64_t)channel * l->near_slots + slot) * mrw_staging_stride(l, true) +
		       round % MRW_ROUND_SLOTS * l->cells * l->chunk_bytes;
	uint64_t index = ((uint64_t)channel * (l->slots - l->near_slots) + slot - l->near_slots) * MRW_ROUND_SLOTS + round % MRW_ROUND_SLOTS;
	return l->staging_offset[format] + index * l->chunk_bytes;
}

/* The owner's lane to (OUT) or from (IN) the rank with this slot of lanes; what owner says to it goes to the other's lane of the other way. */
MRW_PURE uint64_t mrw_lane_offset(const struct mrw_layout *l, enum mrw_way way, uint32_t lane, uint32_t slot)
{
	uint64_t index = ((uint64_t)way * l->lanes + lane) * l->lane_slots + slot;
	return l->lanes_offset + index * sizeof(struct mrw_lane);
}

MRW_PURE struct mrw_lane *mrw_lane_at(const struct mrw_layout *l, uint8_t *arena, enum mrw_way way, uint32_t lane, uint32_t slot)
{
	return (struct mrw_lane *)(void *)(arena + mrw_lane_offset(l, way, lane, slot));
}

/* First packet that the rank with this slot puts here on a turn of this parity. */
MRW_PURE uint64_t mrw_lane_packets_offset(const struct mrw_layout *l, uint32_t lane, uint32_t slot, uint32_t parity)
{
	uint64_t index = ((uint64_t)lane * l->lane_slots + slot) * 2 + parity;
	return l->lane_packets_offset + index * l->lane_units * sizeof(struct mrw_packet);
}

/* Staging of the lane's chunk number chunk. */
MRW_PURE uint64_t mrw_lane_chunk_offset(const struct mrw_layout *l, uint32_t lane, uint32_t slot, uint64_t chunk)
{
	uint64_t index = ((uint64_t)lane * l->lane_slots + slot) * MRW_LANE_SLOTS + chunk % MRW_LANE_SLOTS;
	return l->lane_staging_offset + index * l->lane_chunk_bytes;
}

MRW_STATIC_ASSERT(MRW_ROUND_SLOTS <= 2, "notes and marks have two parities");

/* Bytes that this round's team put into the outbox for the peer with this slot, 0 again once they are posted. Written by the team's thread
 * 0, read and cleared by whoever posts the round. */
MRW_PURE uint32_t *mrw_note_at(const struct mrw_layout *l, uint8_t *arena, uint32_t format, uint32_t channel, uint64_t round, uint32_t slot)
{
	uint64_t index = (((uint64_t)channel * 2 + (round & 1)) * MRW_FORMATS + format) * l->slots + slot;
	return (uint32_t *)(void *)(arena + l->notes_offset) + index;
}

/* WQEBBs of the channel's queue pair to the peer with this slot behind which all that channel last posted of a kind and parity lies. Writer and reader: whoever posts
 * for that peer. */
MRW_PURE uint64_t *mrw_posted_at(const struct mrw_layout *l, uint8_t *arena, enum mrw_posted_kind kind, uint32_t channel, uint32_t parity,
				 uint32_t slot)
{
	uint64_t notes = (uint64_t)l->channels * 2 * l->slots * MRW_FORMATS * 4;
	uint64_t index = (((uint64_t)channel * 2 + parity) * MRW_POSTED_KINDS + kind) * l->slots + slot;
	return (uint64_t *)(void *)(arena + l->notes_offset + notes) + index;
}

#endif
