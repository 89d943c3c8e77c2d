"""The mutants: small wrong edits, one mistake each, that somebody could make. run (beside this file) applies them.

edits: (file, text that occurs there exactly once, replacement). tests: which tests of run are tried first; a mutant has survived
only when all the others have passed too. tsan_only: no other tool can see it on this kind of machine. extra: tried with --all, or by name."""
import collections

Mutant = collections.namedtuple("Mutant", "name edits tests tsan_only extra", defaults=[False, False])

ORDER = "src/device/order_host.h"
TEAM = "src/device/team_host.h"
WIRE = "src/device/wire.h"
FLAG = "src/device/flag.h"
FAULT = "src/device/fault.h"
OPERATION = "src/device/operation.h"
WINDOW = "src/device/window.h"
WINDOWS = "src/window.c"
COPY = "src/device/copy.h"
PACKET = "src/device/packet.h"
REDUCE = "src/device/reduce.h"
PEER = "src/collectives/peer.h"
SCHEDULE = "src/collectives/schedule.h"
SELECT = "src/collectives/select.c"
REDUCE_PACKETS = "src/collectives/reduce_packets.h"
REDUCE_BULK = "src/collectives/reduce_bulk.h"
SUM = "src/collectives/sum.h"
ADD = "src/collectives/add.h"
QUICK = "src/collectives/reduce_quick.h"
LINES = "src/collectives/reduce_lines.h"
PROVE = "src/collectives/prove.h"
LINE_HOST = "src/device/line_host.h"
RUN = "src/collectives/run_host.h"
MOVE_PACKETS = "src/collectives/move_packets.h"
MOVE_BULK = "src/collectives/move_bulk.h"
LAUNCH = "src/launch.c"
INTRODUCTION = "src/introduction.c"
TERMS = "src/terms.c"
TUNING = "src/collectives/tuning.c"
POST = "src/proxyless/post.h"
FAR = "src/device/far.h"
SEND = "src/device/send.h"
RAIL = "src/collectives/rail.h"
REDUCE_RAIL = "src/collectives/reduce_rail.h"
REDUCE_RAILSHOT = "src/collectives/reduce_railshot.h"
MOVE_RAILSHOT = "src/collectives/move_railshot.h"
REACH = "src/collectives/reach.c"
RING = "src/collectives/ring.h"
REDUCE_RING = "src/collectives/reduce_ring.h"
TREE = "src/collectives/tree.h"
BRANCH = "src/collectives/branch.h"
REDUCE_TREE = "src/collectives/reduce_tree.h"
REDUCE_TREESHOT = "src/collectives/reduce_treeshot.h"
MOVE_TREESHOT = "src/collectives/move_treeshot.h"
POLL = "src/proxyless/poll.h"
CQE = "src/proxyless/cqe.h"
NETWORK = "src/network.c"
RINGS = "src/network_rings.c"
VIEW = "src/network_view.c"
TRANSFER = "src/device/transfer.h"
LANE = "src/collectives/lane.h"
LANES = "src/collectives/move_transfers.h"
ROUTES = "src/collectives/routes.h"
EXCHANGE = "src/exchange.c"

NO_REPORT = ("src/watch.c", "poison_page(comm, MRW_FAULT_REPORTED, comm->reporter, comm->rank);", "(void)0;")

MUTANTS = [
    # Order.
    Mutant("publish is relaxed", [(ORDER, "uint64_t v)\n{\n\t__atomic_store_n(p, v, __ATOMIC_RELEASE);", "uint64_t v)\n{\n\t__atomic_store_n(p, v, __ATOMIC_RELAXED);")],
           ["tsan"], True),
    Mutant("observed is relaxed", [(ORDER, "(void)__atomic_load_n(p, __ATOMIC_ACQUIRE);", "(void)__atomic_load_n(p, __ATOMIC_RELAXED);")],
           ["tsan"], True),
    Mutant("observed is left out", [(FLAG, "\tmrw_observed(p);\n", "")], ["tsan"], True),
    Mutant("a team's arrivals are relaxed", [(TEAM, "&b->word, 1, __ATOMIC_ACQ_REL)", "&b->word, 1, __ATOMIC_RELAXED)")],
           ["team", "tsan teams"], True),
    Mutant("votes are never cleared", [(TEAM, "__atomic_store_n(&b->votes[(generation + 1) & 1], 0, __ATOMIC_RELAXED);", "")], ["team"]),

    # Team syncs.
    Mutant("no sync before a round is published", [(TEAM, "MRW_DEV void mrw_team_hand_over(const struct mrw_team *team)\n{\n\tmrw_team_sync(team);",
                                                    "MRW_DEV void mrw_team_hand_over(const struct mrw_team *team)\n{\n\t(void)team;")],
           ["tsan teams"], True),
    Mutant("no vote when a round is waited for", [(PEER, "mrw_stall(channel + 128);\n\treturn !mrw_team_any(team, !ok);", "mrw_stall(channel + 128);\n\treturn ok;")], ["tsan teams"], True),
    Mutant("no vote at the end of an operation", [(OPERATION, "if (mrw_team_any(team, !ok))", "if (!ok)")], ["random teams"]),

    Mutant("peers go on before the team has scrubbed", [(OPERATION, "\t\tmrw_scrub(team, a, w.seq, (w.seq - 1) & 1);\n\t\tmrw_team_sync(team);\n",
                                                         "\t\tmrw_scrub(team, a, w.seq, (w.seq - 1) & 1);\n")], ["stale flags teams"]),
    # Only one thread sees these faults: without the vote it leaves, and the others wait for it.
    Mutant("no vote at the begin of transfers", [(LANES, "\tok = !mrw_team_any(team, !ok);\n\tif (ok) {\n\t\tmrw_selves_copy", "\tif (ok) {\n\t\tmrw_selves_copy")], ["concurrent"]),
    Mutant("no vote before packets across hosts", [(PEER, "\t\t\tok = mrw_far_settled(a, MRW_POSTED_OPERATION, channel, seq & 1, p, w);\n\t}\n\treturn !mrw_team_any(team, !ok);",
                                                    "\t\t\tok = mrw_far_settled(a, MRW_POSTED_OPERATION, channel, seq & 1, p, w);\n\t}\n\treturn ok;")], ["hosts concurrent"]),
    # Without one, for nothing would be wrong: the sync in mrw_lane_scrub() (a thread scrubs the packets that it has itself read) and the vote in
    # mrw_pairwise_end() (the threads agree already, and a later launch begins when the last of them has left).

    # Packets.
    Mutant("the first flag of a packet is not checked", [(FLAG, "(uint32_t)(v.unit[0] >> 32) == seq && (uint32_t)(v.unit[1] >> 32) == seq",
                                                          "(uint32_t)(v.unit[1] >> 32) == seq")], ["random"]),
    Mutant("the second flag of a packet is not checked", [(FLAG, "(uint32_t)(v.unit[0] >> 32) == seq && (uint32_t)(v.unit[1] >> 32) == seq",
                                                           "(uint32_t)(v.unit[0] >> 32) == seq")], ["random"]),
    Mutant("a packet's parity is stuck", [(WIRE, "slot - l->near_slots) * 2 + parity;", "slot - l->near_slots) * 2 + parity * 0;")],
           ["random"]),
    Mutant("an opening's parity is stuck", [(OPERATION, "mrw_slot_there(a, p), seq & 1)->line", "mrw_slot_there(a, p), 0)->line"),
                                            (FAULT, "mrw_slot_here(a, peer), seq & 1)->line", "mrw_slot_here(a, peer), 0)->line"),
                                            (FLAG, "mrw_slot_here(a, p), seq & 1)->line", "mrw_slot_here(a, p), 0)->line")], ["random"]),
    Mutant("no scrub", [(OPERATION, "\t\tmrw_scrub(team, a, w.seq, (w.seq - 1) & 1);\n", "")], ["stale flags"]),
    Mutant("the scrub takes the wrong parity", [(OPERATION, "mrw_scrub(team, a, w.seq, (w.seq - 1) & 1)", "mrw_scrub(team, a, w.seq, w.seq & 1)")],
           ["stale flags"]),
    Mutant("the scrub forgets places", [(OPERATION, "\t\tmrw_store_relaxed(&o->unit[3], stale);\n", "")], ["stale flags"]),
    Mutant("the scrub forgets the second exchange", [(OPERATION, "f < l->packet_formats", "f < 1")], ["stale flags"]),

    # Windows.
    Mutant("places are not published", [(WINDOW, "mrw_publish(&o->unit[3], place", "mrw_store_relaxed(&o->unit[3], place")], ["tsan windows"], True),
    Mutant("places are not observed", [(WINDOW, "\tmrw_observed(&o->unit[3]);\n", "")], ["tsan windows"], True),
    Mutant("half a place is enough", [(WINDOW, "low >> 32 == seq && high >> 32 == seq", "low >> 32 == seq")], ["tsan windows"], True),
    Mutant("a place's parity is stuck", [(WINDOW, "mrw_slot_there(a, p), seq & 1)->line", "mrw_slot_there(a, p), 0)->line"),
                                         (WINDOW, "mrw_slot_here(a, w.peer), w.seq & 1)->line", "mrw_slot_here(a, w.peer), 0)->line")], ["random windows"]),
    Mutant("places are written to whatever the call is", [(WINDOW, "\tif (!mrw_wait_opening(a, w))\n\t\treturn false;\n", "")], ["windows"]),
    Mutant("a window that is gone is still said", [(WINDOW, "return mrw_load_relaxed(&w->id) == a->window_id ? a->place : 0;", "return w ? a->place : 0;")], ["windows"]),
    Mutant("a window's offset is left out", [(WINDOWS, "a->place = mrw_place(w->slot, offset);", "a->place = mrw_place(w->slot, offset * 0);")], ["random windows"]),
    Mutant("a window's place in its buffer is left out", [(WINDOWS, "w->peers[r].base + offers[r].offset", "w->peers[r].base")], ["random windows"]),
    Mutant("beyond the window is in it", [(WINDOWS, "recv_bytes <= w->bytes - offset", "recv_bytes > 0")], ["windows"]),
    Mutant("any address will do", [(WINDOWS, "align % MRW_QUANTUM_BYTES != 0 || ", "")], ["windows"]),
    Mutant("blocks of any size will do", [(WINDOWS, "(gather ? a->bytes : 0)", "0")], ["windows"]),
    Mutant("the last bytes of a sum are a whole vector", [(ADD, "MRW_VEC_BYTES, MRW_WINDOWS ? bytes : MRW_VEC_BYTES);", "MRW_VEC_BYTES, MRW_VEC_BYTES);")],
           ["random windows"]),
    Mutant("windows are no part of a call", [(WINDOWS, "a->call.windows = comm->windowed > 0 && ", "a->call.windows = comm->windowed > 99 && ")], ["windows"]),
    Mutant("an all_gather is put where another rank's block is", [(MOVE_BULK, "round, a->rank * a->bytes + c.offset, a->in", "round, c.offset, a->in")], ["random windows"]),
    Mutant("results are expected before places are known", [(REDUCE_BULK, "if (t == lag) /*", "if (t == lag + 1) /*")], ["random windows"]),
    Mutant("a registered buffer can be freed", [("src/memory.c", "\t\tb->holders++;\n", "\t\tb->holders += 0;\n")], ["windows"]),
    Mutant("ranks may give up different windows", [(WINDOWS, "if (all[r].id != mine.id)\n\t\t\treturn", "if (all[r].id == UINT64_MAX)\n\t\t\treturn")], ["windows"]),

    # Seq.
    Mutant("an operation ends without its peers' opening lines", [(OPERATION, "if (channel == 0 && ok)\n", "if (channel != channel)\n")],
           ["random", "matrix"]),
    Mutant("channels that a call leaves out stay behind", [(OPERATION, "c < a->layout.channels; c +=", "c < a->call.channels; c +=")], ["random"]),
    Mutant("seq advances by two on channel 1", [(OPERATION, "mrw_store_relaxed(&state[c].word, op->seq);", "mrw_store_relaxed(&state[c].word, op->seq + (c == 1));")],
           ["random"]),
    Mutant("seq does not advance", [(OPERATION, "mrw_store_relaxed(&state[c].word, op->seq);", "mrw_store_relaxed(&state[c].word, op->seq - 1);")],
           ["random"]),

    # Rounds.
    Mutant("rounds are not waited for", [(PEER, "if (mrw_is_peer(a, p))\n\t\t\tok = mrw_wait_reached", "if (p >= a->nranks)\n\t\t\tok = mrw_wait_reached")],
           ["random"]),
    Mutant("the round waited for is off by one", [(PEER, "round - lag + 1, w)", "round - lag, w)")], ["tsan", "random"]),
    Mutant("a round is published early", [(PEER, "mrw_slot_there(a, p)), round + 1)", "mrw_slot_there(a, p)), round + 2)")], ["tsan", "random"]),
    Mutant("rounds are forgotten between operations", [(PEER, "channel[channel].round, rounds);", "channel[channel].round, rounds - 1);")], ["random"]),
    Mutant("half the staging slots", [(WIRE, "#define MRW_ROUND_SLOTS 2u", "#define MRW_ROUND_SLOTS 1u")], ["rounds"]),
    Mutant("one lag too many", [(WIRE, "#define MRW_MAX_LAG 1u ", "#define MRW_MAX_LAG 2u ")], ["rounds"]),
    Mutant("staging is read a round late", [(REDUCE_BULK, "0, channel, 0, round - a->call.lag)", "0, channel, 0, round)")], ["random"]),
    Mutant("an operation does not drain its last round", [(SCHEDULE, "return chunks + (uint64_t)exchanges * lag;", "return chunks + (uint64_t)exchanges * lag - 1;")],
           ["random"]),
    Mutant("a rank with nothing to move is silent", [(REDUCE_BULK, "\t\tmrw_rounds_publish(team, channel, a, round);",
                                                      "\t\tif (t < mrw_chunks(mrw_block_of(a->bytes, a->share_bytes, a->rank).bytes, a->call.chunk_bytes, a->call.channels, channel) + 2 * lag)\n"
                                                      "\t\t\tmrw_rounds_publish(team, channel, a, round);")], ["random", "matrix"]),
    Mutant("a rank without data is silent in broadcasts", [(MOVE_BULK, "\t\tmrw_rounds_publish(team, channel, a, round);",
                                                            "\t\tif (a->share_bytes == 0 || mrw_block_of(a->bytes, a->share_bytes, a->rank).bytes > 0)\n"
                                                            "\t\t\tmrw_rounds_publish(team, channel, a, round);")], ["random 3", "matrix"]),

    # Layout and schedule.
    Mutant("staging of two writers overlaps", [(WIRE, "at += places * MRW_ROUND_SLOTS * cells", "at += places * (MRW_ROUND_SLOTS - 1) * cells")], ["wire"]),
    Mutant("packets of two channels overlap", [(WIRE, "((uint64_t)channel * (l->slots - l->near_slots) + slot - l->near_slots) * 2 +",
                                                "((uint64_t)channel * (l->slots - l->near_slots - 1) + slot - l->near_slots) * 2 +")], ["wire"]),
    Mutant("the second packets lie on the first", [(WIRE, "at += places * 2 * l->units * sizeof", "at += places * l->units * sizeof")],
           ["wire"]),
    Mutant("writers below and above share a slot", [(WIRE, "return writer < owner ? writer : writer - 1;", "return writer < owner ? writer : writer - owner;")],
           ["wire", "random 3"]),
    Mutant("shares are not whole quanta", [(SCHEDULE, "(quanta / nranks + (quanta % nranks != 0)) * MRW_QUANTUM_BYTES;", "(bytes + nranks - 1) / nranks;")],
           ["schedule"]),
    Mutant("the last channel misses units", [(SCHEDULE, "return units / channels + (units % channels != 0);", "return units / channels;")], ["schedule"]),
    Mutant("the last chunk is lost", [(SCHEDULE, "return all / channels + (channel < all % channels);", "return all / channels;")], ["schedule"]),
    Mutant("more packets than the slots hold", [(SELECT, "uint64_t want = ceil_div(units, units_room(in, plan->algo));", "uint64_t want = 1;")], ["select", "matrix"]),

    # Data.
    Mutant("the tail of a chunk is not copied", [(COPY, "\tif (at < bytes)\n\t\tmrw_store_part(dst + at,", "\tif (bytes == 0)\n\t\tmrw_store_part(dst + at,")],
           ["random teams"]),
    Mutant("the tail of a chunk is not reduced", [(ADD, "\tif (at < s.bytes)\n\t\tmrw_sum_one(", "\tif (s.bytes == 0)\n\t\tmrw_sum_one(")], ["random"]),
    Mutant("a partial unit loses a byte", [(PACKET, "mrw_store_part(p, v, (uint32_t)left);", "mrw_store_part(p, v, (uint32_t)left - 1);")], ["random"]),
    Mutant("packets are added in another order", [(REDUCE_PACKETS, "for (uint32_t p = 0; p < a->nranks; p++) {\n\t\tuint32_t payload[2]",
                                                   "for (uint32_t n = 0, p = a->nranks - 1; n < a->nranks; n++, p--) {\n\t\tuint32_t payload[2]"),
                                                  (REDUCE_PACKETS, "mrw_unit_combine(reduction, acc, payload, p == 0)",
                                                   "mrw_unit_combine(reduction, acc, payload, n == 0)")], ["random 3"]),
    Mutant("quick packets are added in another order",
           [(QUICK, "payload, p == 0);", "payload, p == a->rank);"),
            (QUICK, "for (uint32_t p = 0; p < k.nranks; p++) {", "for (uint32_t n = 0, p = a->rank; n < k.nranks; n++, p = p + 1 < a->nranks ? p + 1 : 0) {"),
            (QUICK, "slot += 2 * a->layout.units; /* the next writer's */", "slot = mrw_packets_at(&a->layout, a->arena[a->rank], 0, channel, mrw_writer_slot(a->rank, (p + 1) % a->nranks == a->rank ? p : (p + 1) % a->nranks), seq & 1) + i;"),
            (QUICK, "0, channel, 0, seq & 1) + i;", "0, channel, mrw_writer_slot(a->rank, (a->rank + 1) % a->nranks), seq & 1) + i;")],
           ["random 3"]),
    Mutant("a quick look takes any opening line for the right one", [(FLAG, "return (uint32_t)v.unit[0] == (uint32_t)a->call.hash &&", "return v.unit[0] != 0 ||")],
           ["mismatch"]),
    Mutant("a quick reduce-scatter sends everybody the same block", [(QUICK, "if (stride != 0)", "if (stride == 1)")], ["random"]),
    Mutant("a late quick packet is lost", [(QUICK, "a, op.seq, i);\n\t\t\t\tbreak;", "a, op.seq, i + team->size);\n\t\t\t\tbreak;")], ["stale flags"]),
    Mutant("a line's flag is not checked", [(LINE_HOST, "if (mrw_load_relaxed(&words[MRW_LINE_UNITS]) != mrw_line_flag(seq))\n\t\treturn false;", "(void)seq;")],
           ["random"]),
    Mutant("a line's parity is stuck", [(WIRE, "l->slots + slot) * 2 + parity;\n\treturn arena", "l->slots + slot) * 2 + parity * 0;\n\treturn arena")],
           ["random"]),
    Mutant("lines are added in another order",
           [(LINES, "for (uint32_t p = 0; p < a->nranks; p++) {\n\t\tuint32_t part", "for (uint32_t n = 0, p = a->rank; n < a->nranks; n++, p = p + 1 < a->nranks ? p + 1 : 0) {\n\t\tuint32_t part"),
            (LINES, "part[k][u], p == 0);", "part[k][u], n == 0);")], ["random 3"]),
    Mutant("late lines of a pair are lost", [(LINES, "mrw_lines_reduce_any(team, channel, a, op.seq, at);", "mrw_lines_reduce_any(team, channel, a, op.seq, at + stride);")],
           ["random", "stale flags"]),
    Mutant("a pair adds the lines that it sent first to all", [(LINES, "\t\t\tif (at != first)\n\t\t\t\tmrw_lines_own(a, &w, at + mine, own);\n", "")], ["random"]),
    Mutant("a pair sends its first lines only", [(LINES, "for (at = first + stride; at < w.lines; at += stride) {", "for (at = w.lines; at < w.lines; at += stride) {")],
           ["random"]),
    Mutant("the scrub forgets lines", [(OPERATION, "l->channels && l->lines > 0; c++)", "l->channels && c > c; c++)")], ["stale flags"]),
    Mutant("chunks are added in another order", [(SUM, "return r == s.rank ? s.own : s.staged + mrw_writer_slot(s.rank, r) * s.stride;",
                                                  "return s.nranks - 1 - r == s.rank ? s.own : s.staged + mrw_writer_slot(s.rank, s.nranks - 1 - r) * s.stride;")],
           ["random 3"]),
    Mutant("packets are averaged without the division", [(REDUCE_PACKETS, "average ? mrw_divide(acc[e], nranks) : acc[e]", "acc[e]")], ["random"]),
    Mutant("chunks are averaged without the division", [(ADD, "average ? mrw_divide(acc[k][e], nranks) : acc[k][e]", "acc[k][e]")], ["random teams"]),
    Mutant("runs are averaged without the division", [(RUN, "acc[e] = mrw_divide(acc[e], s.divisor);", "acc[e] = acc[e] + 0;")], ["random"]),
    Mutant("odd vectors are averaged without the division", [(ADD, "s.average ? mrw_divide(acc[e], s.divisor) : acc[e]", "acc[e]")], ["random"]),
    Mutant("small integers are divided before they wrap", [(REDUCE, "return (int32_t)(int8_t)x / (int32_t)nranks;", "return x / (int32_t)nranks;")], ["random"]),
    Mutant("NaNs keep their payload", [(REDUCE, "w[i] = MRW_IS_NAN(x) ? 0x7fc00000u : mrw_bits_from_f32(x);", "w[i] = mrw_bits_from_f32(x);")], ["random"]),
    Mutant("one rank keeps its NaNs", [(LAUNCH, "chosen.algo == MRW_ALGO_LOCAL && !a->scaled && !(reduces && is_float((uint32_t)type));", "chosen.algo == MRW_ALGO_LOCAL && !a->scaled;")],
           ["random alone"]),
    Mutant("max lets the later of two zeros win", [(REDUCE, "return x > r || MRW_IS_NAN(x) ? x : r;", "return x >= r || MRW_IS_NAN(x) ? x : r;")], ["random"]),
    Mutant("min ignores NaNs", [(REDUCE, "return x < r || MRW_IS_NAN(x) ? x : r;", "return x < r ? x : r;")], ["random"]),
    Mutant("premulsum forgets its own packets", [(REDUCE_PACKETS, "\tif (a->scaled)\n\t\tmrw_scale(payload, 2, scalar);", "\tif (a->scaled && block.offset != a->rank * a->share_bytes)\n\t\tmrw_scale(payload, 2, scalar);")],
           ["random"]),
    Mutant("premulsum forgets its own chunks", [(ADD, "if (r == s.rank && s.scaled)", "if (r != s.rank && s.scaled)")], ["random"]),

    # Faults.
    Mutant("another call at the end goes unnoticed", [(FLAG, "if (hash != a->call.hash) {", "if (hash == 0) {")], ["mismatch"]),
    Mutant("another call in a wait goes unnoticed", [(FAULT, "return mrw_is_peer(a, peer) && mrw_opening_seen(a, seq, peer, &hash) && hash != a->call.hash;",
                                                      "return mrw_is_peer(a, peer) && mrw_opening_seen(a, seq, peer, &hash) && hash == 0 && seq != 0;")], ["mismatch"]),
    Mutant("the hash leaves out the count", [(LAUNCH, "\tc.hash = 0;\n", "\tc.hash = 0;\n\tc.count = 0;\n")], ["mismatch"]),
    Mutant("the abort word is not read", [(FLAG, "if (abort != 0) {", "if (abort == 1) {")], ["lifetimes"]),
    Mutant("the deadline is not read", [(FLAG, "if (waited > a->deadline_ns) {", "if (waited > a->deadline_ns << 20) {")], ["first fault"]),
    Mutant("long waits leave no note", [(FLAG, "if (waited > a->note_ns) {", "if (waited > a->note_ns << 20) {")], ["long wait"]),
    Mutant("peers are not told of a fault", [(FAULT, "\t\tmrw_poison_all(a, poison);", "\t\tmrw_store_relaxed(&mine->poison, poison);")], ["first fault"]),
    # A report by the bootstrap would make them leave as well, later.
    Mutant("poison is not looked for in waits", [(FLAG, "if (poison != 0) {", "if (poison == 1) {"), NO_REPORT], ["first fault"]),
    Mutant("a finalized communicator forgives any failure", [("src/api.c", "!record && !__atomic_load_n(&comm->hurt, __ATOMIC_ACQUIRE)", "(record || true)")],
           ["abort"]),
    Mutant("an abort of one's own is forgiven", [("src/api.c", "\t__atomic_store_n(&comm->hurt, true, __ATOMIC_RELEASE);\n", "")], ["abort"]),
    Mutant("poison is not looked for at the begin", [(OPERATION, "if (poison != 0) {", "if (poison == 1) {")], ["abort", "first fault"]),

    # Transfers.
    Mutant("lines of transfers have one parity", [(TRANSFER, "lane->heard[number >> l->lane_shift & 1].unit", "lane->heard[number >> l->lane_shift & 0].unit"),
                                     (LANE, "return (uint32_t)(h->number >> m->a.layout.lane_shift) & 1;", "return (uint32_t)(h->number >> m->a.layout.lane_shift) & 0;")],
           ["exchanges"]),
    Mutant("a chunk more than there are slots", [(LANE, "mrw_stand_reached(h, h->chunks + 1 - MRW_LANE_SLOTS)", "mrw_stand_reached(h, h->chunks - MRW_LANE_SLOTS)")],
           ["random 3", "exchanges"]),
    Mutant("chunks are counted without order", [(LANE, "mrw_publish(&mrw_stand_other(m, h)->count,", "mrw_store_relaxed(&mrw_stand_other(m, h)->count,")],
           ["tsan exchanges"], True),
    Mutant("chunks are not observed", [(LANE, "\tmrw_observed(&h->own->count);\n", "")], ["tsan exchanges"], True),
    Mutant("no vote after a step", [(LANE, "\tok = !mrw_team_any(team, !ok);\n\tif (ok && h->step", "\tif (ok && h->step")], ["tsan exchanges", "exchanges teams"]),
    Mutant("one thread waits for an only lane", [(LANES, "if (only && mrw_team_any(team, team->index == 0 && !mrw_lane_await(m, &h, pick, seq)))", "if (only && team->index == 0 && !mrw_lane_await(m, &h, pick, seq))")], ["exchanges teams", "tsan exchanges"]),
    Mutant("an only lane stays where it stood", [(LANES, "\tif (team->index == 0)\n\t\tmrw_stand_reset(&h);\n", "")], ["exchanges teams"]),
    Mutant("a lane of several stays where it stood", [(LANES, "\t\t\t\t\tmrw_stand_reset(&h);\n", "")], ["exchanges"], extra=True),
    Mutant("an only lane forgets what it moved", [(LANE, "\th->own->chunks = h->chunks;\n", "")], ["exchanges"], extra=True),
    Mutant("nobody is told which lane goes on", [(TEAM, "\tmrw_team_sync(team);\n\treturn (uint32_t)", "\treturn (uint32_t)")], ["team", "exchanges teams"], extra=True),
    Mutant("idle lanes stay behind", [(LANES, "mrw_lane_shared(m, l, first) : l)->first = next;", "mrw_lane_shared(m, l, first) : l)->first = l < a->call.channels ? next : first;")], ["exchanges"], extra=True),
    Mutant("a base goes with another team's lane", [(LANES, "mrw_lane_numbered(m, l)->base = next;", "mrw_lane_numbered(m, even ? mrw_lane_shared(m, l, first) : l)->base = next;")], ["exchanges teams", "tsan exchanges"]),
    Mutant("lanes are shared out as if none moved on", [(LANES, "((l / m->routes + (uint32_t)first) & (m->a.layout.lanes - 1)) * m->routes", "(l / m->routes) * m->routes")],
           ["exchanges", "exchanges teams"]),
    Mutant("a part of a group has the whole route's lanes", [(EXCHANGE, "\t\tr.lanes = (uint8_t)width(&part.a.layout, part.list, &r, d->runtime->target == MARROW_TARGET_CUDA, &wide);\n", "\t\twide = true;\n")],
           ["exchanges parts"]),
    Mutant("a route has a lane less than its transfers need", [(ROUTES, "uint64_t most = place + (width ? width : 1);", "uint64_t most = place + (width > 1 ? width - 1 : 1);")],
           ["exchanges"], extra=True),
    Mutant("a pick is changed before all have been told", [(LANES, "\telse\n\t\tmrw_team_sync(team); /* all have been told */\n", "")], ["exchanges teams"]),
    Mutant("a lane is waited for alone", [(LANES, "for (; rest != 0; rest &= rest - 1) {\n\t\t\t\tuint32_t l = k * 64 + mrw_lowest_bit(rest);",
                                           "for (; rest != 0; rest = 0) {\n\t\t\t\tuint32_t l = active->word[0] ? mrw_lowest_bit(active->word[0]) : 64 + mrw_lowest_bit(active->word[1]);")],
           ["exchanges"]),
    Mutant("the last of a lane's chunks is lost", [(SCHEDULE, "((all - 1 - first) >> l->lane_shift) + 1 : 0", "((all - 1 - first) >> l->lane_shift) + (all < 4) : 0")], ["schedule"], extra=True),
    Mutant("calls of a group change places", [(EXCHANGE, "const struct mrw_transfer *list = list_of(tasks[i]);\n\t\tfor (uint32_t k = 0; k < tasks[i]->listed; k++)",
                                               "const struct mrw_transfer *list = list_of(tasks[i ^ (i ^ 1) % count]);\n\t\tfor (uint32_t k = 0; k < tasks[i]->listed; k++)")],
           ["exchanges"], extra=True),
    Mutant("sends do not see that something runs", [(LANES, "if (team->index == 0 && (word & MRW_CHANNEL_BUSY)) {", "if (team->index != 0 && (word & MRW_CHANNEL_BUSY)) {")], ["pairs"], extra=True),
    Mutant("sends leave their mark behind", [(LANES, "channel[channel].word, op->seq);", "channel[channel].word, op->seq | MRW_CHANNEL_BUSY);")], ["exchanges"], extra=True),
    Mutant("sizes are not compared", [(TRANSFER, "return bytes != t->bytes || (words & 0xff)", "return (words & 0xff)")], ["pairs"]),
    Mutant("a send does not wait for its recv", [(LANE, "h->step == (h->way == MRW_WAY_IN ? MRW_STEP_HEAR_FIRST : MRW_STEP_HEAR_LAST)", "h->step == (h->way == MRW_WAY_IN ? MRW_STEP_HEAR_FIRST : MRW_STEPS + 1)"),
                                                 (LANE, "if (home && h->way == MRW_WAY_OUT && h->step <= MRW_STEP_HEAR_LAST) {", "if (home && h->way == MRW_WAY_OUT && h->step > MRW_STEP_HEAR_LAST) {")],
           ["exchanges", "pairs"]),
    Mutant("a send and its recv are not told apart from others", [(TRANSFER, "|| (words & 0xff) != (mrw_line_words(t->func, t->type) & 0xff);", "|| (words & 0xff) > 99;")], ["pairs"], extra=True),
    Mutant("a lost end is not asked for in a group", [(LANES, "for (uint32_t n = looks % count; n > 0; n--)", "for (uint32_t n = 0; n > 0; n--)")], ["pairs"], extra=True),

    # The proof of paths at init.
    Mutant("what a path brings is not compared", [(PROVE, "if (w.seen != w.expected) {", "if (w.seen != w.expected && w.expected == 0) {")], ["paths"]),
    Mutant("the head of what a path brings is compared", [(PROVE, "\t\tfor (uint32_t i = team->index; i < mrw_pattern_bytes(a, p) / 8; i += team->size) {\n\t\t\tstruct mrw_where",
                                                           "\t\tfor (uint32_t i = team->index; i < 64; i += team->size) {\n\t\t\tstruct mrw_where")], ["paths"]),
    Mutant("patterns do not say for whom they are", [(PROVE, "(uint64_t)(reader + 1) << 32", "(uint64_t)(reader > MRW_MAX_RANKS) << 32")], ["paths"]),
    Mutant("the token goes before the team's pattern", [(PROVE, "\tmrw_team_sync(team);\n\tbool ok = true;", "\tbool ok = true;")], ["paths", "tsan paths"]),
    Mutant("patterns are compared before all have come", [(PROVE, "\tif (mrw_team_any(team, !ok))\n\t\treturn;\n\tfor", "\tif (!ok)\n\t\treturn;\n\tfor")], ["paths", "tsan paths"]),
    Mutant("a proof takes as long as an exchange", [("src/comm.c", "comm->timeout_ms * 3 / 4 : MRW_PROOF_MS;", "comm->timeout_ms : MRW_PROOF_MS;")], ["paths"]),
    Mutant("a rank's own lines count", [("src/comm.c", "comm->lines = comm->lines && all[r].whole;", "comm->lines = comm->lines && (all[r].whole || r != comm->rank);")], ["paths"]),

    # Across hosts.
    Mutant("a chunk's count goes before it", [(LANE, "mrw_far_range(a, h->lane, p, index, false, l->outbox + mrw_lane_chunk_offset(", "mrw_far_range(a, h->lane, p, index + 1, true, l->outbox + mrw_lane_chunk_offset("),
                                              (LANE, "mrw_far_word(a, h->lane, p, index + n - 1, mrw_lane_offset(", "mrw_far_word(a, h->lane, p, index, mrw_lane_offset(")], ["hosts", "hosts exchanges"]),
    Mutant("credits are on their way to who has left", [(LANE, "if (h->step == MRW_STEP_DRAIN || !h->far || h->way != MRW_WAY_OUT)", "if (h->step == MRW_STEP_DRAIN || h->far || h->way != MRW_WAY_OUT)"),
                                                        (LANE, "\th->step = MRW_STEP_DRAIN;\n\treturn true;", "\th->step = MRW_STEP_DRAIN;\n\treturn false;")], ["hosts pairs"]),
    Mutant("a round's counter goes before its chunks", [(SEND, "uint64_t at = index;", "uint64_t at = index + 1;"),
                                                        (SEND, "mrw_far_word(a, channel, p, at, mrw_round_offset", "mrw_far_word(a, channel, p, index, mrw_round_offset")],
           ["hosts"]),
    Mutant("the outbox has one parity of packets", [(FAR, "a->layout.outbox, format, channel, a->far->peer[p].here, parity);", "a->layout.outbox, format, channel, a->far->peer[p].here, 0);")], ["hosts"]),
    Mutant("what was posted is posted again", [(SEND, "*note = 0;", "(void)seq;")], ["hosts messages"]),
    Mutant("the second exchange stays here", [(REDUCE_BULK, "mrw_stage_note(team, a, 1, channel, mrw_peer(a, q), round, s.bytes);", "mrw_stage_note(team, a, 1, channel, mrw_peer(a, q), round, 0);")],
           ["hosts"]),
    Mutant("empty blocks are sent", [(REDUCE_PACKETS, "if (mrw_is_far(a, p) && count > 0 &&", "if (mrw_is_far(a, p) &&")], ["hosts messages"]),
    Mutant("a greeting carries no call", [(FAULT, "mrw_slot_here(a, peer), seq & 1)->call", "mrw_slot_here(a, peer), ~seq & 1)->call")],
           ["hosts mismatch"]),
    Mutant("blocks leave their host before the team has put them", [(REDUCE_PACKETS, "\tmrw_units_send(team->index, team->size, channel, a, seq);\n\tmrw_team_sync(team);\n",
                                                                    "\tmrw_units_send(team->index, team->size, channel, a, seq);\n")], ["hosts teams"]),
    Mutant("results leave their host before the team has added them", [(REDUCE_PACKETS, "\tif (mrw_team_any(team, !ok))\n\t\treturn false;\n\treturn mrw_units_push(team, 1,",
                                                                       "\tif (!ok)\n\t\treturn false;\n\treturn mrw_units_push(team, 1,")], ["hosts teams"]),
    Mutant("what is moved leaves its host before the team has put it", [(MOVE_PACKETS, "\tif (mrw_team_any(team, !ok))\n\t\treturn false;\n\tif (count == 0",
                                                                        "\tif (!ok)\n\t\treturn false;\n\tif (count == 0")], ["hosts teams"]),
    Mutant("a small send leaves its host before the team has put it", [(LANE, "\tif (h->far)\n\t\tmrw_team_sync(team);\n", "")], ["hosts exchanges teams"]),
    Mutant("poison stays on its host", [(FAULT, "\t\tmrw_far_poison(a, p, cause);", "\t\treturn;"), NO_REPORT], ["hosts first fault"]),

    # Queues in a memory of the device's own.
    Mutant("queues are drained unseen", [(NETWORK, "enum marrow_status status = mrw_view_fetch(&n->view, k, q);", "enum marrow_status status = MARROW_SUCCESS;")],
           ["hosts stand-in"]),
    Mutant("without dma-bufs there is no way", [(NETWORK, "\tif (by_dmabuf != MARROW_SUCCESS)\n\t\tstatus = mrw_region_new(", "\tif (bytes == 0)\n\t\tstatus = mrw_region_new(")], ["hosts stand-in"]),
    Mutant("without dma-bufs there are no rings in device memory", [(RINGS, "\tif (by_dmabuf != MARROW_SUCCESS)\n\t\tstatus = place_one_way(", "\tif (part == 0)\n\t\tstatus = place_one_way(")],
           ["hosts stand-in"]),
    Mutant("a NIC that registers rings need not reach them", [(RINGS, "return status == MARROW_SUCCESS ? mrw_nic_trial(nic, ms) : status;", "return status;")], ["hosts stand-in"]),
    Mutant("rings that can be done without are waited for", [(RINGS, "must ? MUST_MS : TRIAL_MS", "MUST_MS")], ["hosts stand-in"]),
    Mutant("a trial that fails is warned of", [("src/proxyless/link.c", "link->trial ? MRW_LOG_DEBUG : MRW_LOG_WARN", "MRW_LOG_WARN")], ["hosts stand-in"]),
    Mutant("after a failure even those are waited for who know of it", [("src/api.c", "well ? NULL : comm->boot, text", "NULL, text")], ["hosts stand-in"]),
    Mutant("after a failure requests are waited for for longer", [("src/api.c", "MRW_NIC_FAREWELL_MS = 300", "MRW_NIC_FAREWELL_MS = 600")], ["hosts stand-in"]),
    Mutant("requests that do not go are a failure", [("src/api.c", "if (status == MARROW_TIMEOUT) {\n\t\tmrw_log(MRW_LOG_WARN, \"%s\", text);", "if (text[0] == 0) {\n\t\tmrw_log(MRW_LOG_WARN, \"%s\", text);")], ["hosts stand-in"]),
    Mutant("pages stay mapped", [(VIEW, "for (uint32_t i = 0; i < view->npages; i++)", "for (uint32_t i = 1; i < view->npages; i++)")], ["hosts stand-in"]),
    Mutant("kernels get the host's doorbell", [(VIEW, "return map(view, m.doorbell.base, m.doorbell.bytes, true, &q->doorbell);",
                                                "uint64_t *left = q->doorbell;\n\tenum marrow_status status = map(view, m.doorbell.base, m.doorbell.bytes, true, &q->doorbell);\n\tq->doorbell = left;\n\treturn status;")],
           ["hosts stand-in"]),
    Mutant("kernels share the host's queues", [(VIEW, "to->peer[p].queue[i] = (struct mrw_queue *)(void *)queue_at(view, (uint32_t)(far->peer[p].queue[i] - queues));", "(void)queue_at(view, 0);")], ["hosts stand-in"]),

    # Along rails.
    Mutant("a host's sum reads what is being written", [(REDUCE_RAIL, "0, channel, 0, round - a->call.lag) + (uint64_t)host", "0, channel, 0, round) + (uint64_t)host")], ["rails"]),
    Mutant("the rail's sum reads what is being written", [(REDUCE_RAIL, "0, channel, a->layout.near_slots, round - a->call.lag)", "0, channel, a->layout.near_slots, round)")],
           ["rails"]),
    Mutant("results are passed on before they are here", [(RAIL, "src = mrw_staging_from(a, 1, channel, mrw_rail_rank(a, h, a->far->local), round - a->call.lag);",
                                                           "src = mrw_staging_from(a, 1, channel, mrw_rail_rank(a, h, a->far->local), round);")], ["rails"]),
    Mutant("a broadcast is passed on before it is here", [(RAIL, "src = mrw_staging_from(a, 0, channel, a->call.root, round - a->call.lag)", "src = mrw_staging_from(a, 0, channel, a->call.root, round)")],
           ["rails"]),
    Mutant("a host's sum stays here", [(REDUCE_RAIL, "mrw_stage_note(team, a, 0, channel, mrw_rail_rank(a, host, a->far->local), round, s.bytes);",
                                        "mrw_stage_note(team, a, 0, channel, mrw_rail_rank(a, host, a->far->local), round, 0);")], ["rails"]),
    Mutant("the last exchange is not waited for", [(SCHEDULE, "return mrw_rounds(chunks, mrw_rail_last(func) - mrw_rail_first(func), lag);",
                                                    "return mrw_rounds(chunks, mrw_rail_last(func) - mrw_rail_first(func), lag) - 1;")], ["rails"]),
    Mutant("hosts' packets are added in another order", [(REDUCE_RAILSHOT, "for (uint32_t h = 0; h < a->far->hosts; h++) {\n\t\t\tif (h == a->far->host)",
                                                          "for (uint32_t n = 0, h = a->far->host; n < a->far->hosts; n++, h = h + 1 < a->far->hosts ? h + 1 : 0) {\n\t\t\tif (h == a->far->host)"),
                                                         (REDUCE_RAILSHOT, "mrw_unit_combine(reduction, acc, payload, h == 0);", "mrw_unit_combine(reduction, acc, payload, n == 0);")],
           ["rails 3"]),
    Mutant("hosts' sums are averaged twice", [(REDUCE_RAILSHOT, "mrw_unit_narrow(acc, false, 1, sum);", "mrw_unit_narrow(acc, a->average != 0, a->far->per_host, sum);")], ["rails"]),
    Mutant("packets leave before the team has put them", [(REDUCE_RAILSHOT, "if (!mrw_team_any(team, !ok)) /* the outbox is full */", "if (ok)")], ["rails teams"]),
    Mutant("packets of an all-gather leave before the team has put them",
           [(MOVE_RAILSHOT, "\tmrw_team_sync(team);\n\treturn mrw_railshot_post(mrw_team_high(team), team->size, channel, a, seq, r.count);\n}\n\nMRW_DEV_CALL bool mrw_railshot_all_gather",
             "\treturn mrw_railshot_post(mrw_team_high(team), team->size, channel, a, seq, r.count);\n}\n\nMRW_DEV_CALL bool mrw_railshot_all_gather")], ["rails teams"]),
    Mutant("a broadcast goes along the rail before the team has put it", [(MOVE_RAILSHOT, "\tif (!root)\n\t\treturn true;\n\tmrw_team_sync(team);\n", "\tif (!root)\n\t\treturn true;\n")],
           ["rails teams"]),
    Mutant("a barrier does not wait for its host", [(MOVE_RAILSHOT, "if (!mrw_railshot_take(channel, a, seq, mrw_rail_rank(a, a->far->host, mrw_rail_local(a, q)), 0, got))",
                                                     "if (channel > 0 && !mrw_railshot_take(channel, a, seq, mrw_rail_rank(a, a->far->host, mrw_rail_local(a, q)), 0, got))")],
           ["rails barrier"]),
    Mutant("near and far peers share slots", [(REACH, "return reach->per_host - 1 + mrw_writer_slot(reach->host[rank]", "return mrw_writer_slot(reach->host[rank]")], ["reach", "rails"]),
    Mutant("cells of two rounds overlap", [(WIRE, "round % MRW_ROUND_SLOTS * l->cells * l->chunk_bytes;", "round % MRW_ROUND_SLOTS * l->chunk_bytes;")], ["wire"]),
    Mutant("poison is not passed on", [(FAULT, "if (mrw_cause_origin(poison) == a->rank || mrw_is_sparse(a))", "if (mrw_cause_origin(poison) == a->rank)"), NO_REPORT],
           ["rails first fault"]),
    Mutant("a round's counter goes by another NIC", [(SEND, "mrw_far_word(a, channel, p, at, mrw_round_offset", "mrw_far_word(a, 0, p, at, mrw_round_offset")], ["rails nics"]),

    Mutant("what a reduce puts aside is read too early", [(REDUCE_RAIL, "mrw_rail_place(a, channel, round - a->call.lag, index);", "mrw_rail_place(a, channel, round, index);")], ["rails"]),
    Mutant("a reduce's root gets the sum of a host", [(RAIL, "mrw_rail_aside(a, channel, round - a->call.lag, 1)", "mrw_rail_aside(a, channel, round - a->call.lag, 0)")], ["rails"]),
    Mutant("a reduce's sum stays on its host", [(REDUCE_RAIL, "\tif (mrw_is_sender(a) && home != a->far->host)\n\t\tmrw_stage_note(", "\tif (mrw_is_sender(a) && home > a->far->hosts)\n\t\tmrw_stage_note(")],
           ["rails"]),
    Mutant("a reduce's root keeps the results of its own rail only", [(REDUCE_RAIL, "if (index[4] < chunks && !mrw_is_sender(a))", "if (index[4] < chunks && home == a->far->hosts)")], ["rails"]),
    Mutant("a reduce's packets for the root stay on their host", [(REDUCE_RAILSHOT, "p == a->call.root))\n\t\t\tok = mrw_packets_push", "p != a->call.root))\n\t\t\tok = mrw_packets_push")], ["rails"]),
    Mutant("a reduce's ranks add what is for another", [(REDUCE_RAILSHOT, "a->call.func != MRW_FUNC_REDUCE || p == mrw_rail_relay(a);", "a->call.func != MRW_FUNC_REDUCE || p == mrw_rail_rank(a, a->far->host, 0);")],
           ["rails"]),

    Mutant("uneven blocks along rails are taken for even ones", [(RAIL, "mrw_block_at(a, mrw_rail_rank(a, host, local));", "mrw_block_of(a->bytes, a->share_bytes, mrw_rail_rank(a, host, local));")], ["rails"]),
    Mutant("uneven blocks' packets are as many as this rank's", [(REDUCE_RAILSHOT, "uint32_t count = mrw_railshot_units(a, mrw_railshot_block(a, h, a->far->local), first);\n\t\tfor", "uint32_t count = mrw_railshot_units(a, mrw_railshot_block(a, a->far->host, a->far->local), first);\n\t\tfor")],
           ["rails"]),
    Mutant("uneven blocks' packets are stored as if all were the largest", [(REDUCE_RAILSHOT, "mrw_unit_store(a->out, (uint64_t)first + i, mine.bytes, payload);", "mrw_unit_store(a->out, (uint64_t)first + i, a->bytes, payload);")],
           ["rails"]),

    Mutant("nobody says who is late", [(FLAG, "\t\tmrw_stuck_tell(a, w, now);", "\t\t(void)now;")], ["rails lost rank"]),

    # In a ring.
    Mutant("a ring takes what is being written", [(RING, "mrw_ring_rank(a, 1), round - a->call.lag);", "mrw_ring_rank(a, 1), round);")], ["ring"]),
    Mutant("a ring's last block does not come home", [(SCHEDULE, "(chunks + mrw_has_shares(func)) * (n - 1) + 1;", "(chunks + mrw_has_shares(func)) * (n - 1);")], ["ring"]),
    Mutant("a ring's finished block stays here", [(REDUCE_RING, "if (!last || s.forward || mrw", "if (!last || mrw")], ["ring"]),
    Mutant("a ring's reduce does not pass results on", [(REDUCE_RING, "passes = distance > step;", "passes = distance > a->nranks - 1;")], ["ring"]),
    Mutant("a ring's reduce stays with its owners", [(REDUCE_RING, "if (!last || s.forward || mrw_is_sender(a))", "if (!last || s.forward)")], ["ring"]),
    Mutant("a ring's reduce writes everybody's output", [(REDUCE_RING, "keeps = !mrw_is_sender(a),", "keeps = gathers,")], ["ring"]),
    Mutant("a ring's uneven block lies where an even one would", [(REDUCE_RING, "mrw_block_at(a, owner).offset;", "owner * a->bytes;")], ["ring"]),
    Mutant("a ring of two leaves a reduce to its root", [(LAUNCH, " && comm->nranks == 2 && !comm->reach.ring;", " && comm->nranks == 2;")], ["ring 2"]),
    Mutant("a ring's sum begins at its owner", [(REDUCE_RING, "struct mrw_chunk c = mrw_ring_chunk(a, channel, mrw_ring_rank(a, 1), index);", "struct mrw_chunk c = mrw_ring_chunk(a, channel, a->rank, index);")],
           ["ring"]),
    Mutant("a ring's barrier is a round short", [(SCHEDULE, "return n / 2;", "return n / 2 - 1;")], ["ring barrier"]),
    Mutant("neighbours on two sides share a slot", [(REACH, "return follows(reach, peer, rank) ? 0 : 1;", "return follows(reach, peer, rank) ? 0 : 0;")], ["reach", "ring"]),

    # In trees.
    Mutant("a tree takes what is being written", [(BRANCH, "mrw_branch_rank(a, which, neighbour), round - a->call.lag);", "mrw_branch_rank(a, which, neighbour), round);")], ["tree"]),
    Mutant("a tree's last results do not arrive", [(TREE, "return chunks + most + (mrw", "return chunks + most - 1 + (mrw")], ["tree"]),
    Mutant("a tree's sums are passed too early", [(TREE, "uint32_t behind = mrw_tree_depth(n) - level;", "uint32_t behind = mrw_tree_depth(n) - level - (level == 1);")], ["tree"]),
    Mutant("both trees write one slot", [(BRANCH, "\t\tmrw_copy(team, mrw_staging_to(a, which, channel, p, round), src, bytes);\n\t\tmrw_stage_note(team, a, which,",
                                          "\t\tmrw_copy(team, mrw_staging_to(a, 0, channel, p, round), src, bytes);\n\t\tmrw_stage_note(team, a, 0,")], ["tree"]),
    Mutant("a sum's chunk stays here", [(REDUCE_TREE, "mrw_stage_note(team, a, which, channel, to, round, c.bytes);", "(void)to;")], ["tree"]),
    Mutant("a node adds its own first", [(REDUCE_TREE, "s.rank = 1; /* of", "s.rank = 0; /* of")], ["tree"]),
    Mutant("a node's packets are added in another order",
           [(REDUCE_TREESHOT, "mrw_twig_take(which, channel, a, seq, MRW_TREE_FIRST, i, payload)", "mrw_twig_take(which, channel, a, seq, mrw_branch_rank(a, which, MRW_TREE_SECOND) == MRW_TREE_NONE ? MRW_TREE_FIRST : MRW_TREE_SECOND, i, payload)"),
            (REDUCE_TREESHOT, "if (!mrw_twig_take(which, channel, a, seq, MRW_TREE_SECOND, i, payload))", "if (!mrw_twig_take(which, channel, a, seq, MRW_TREE_FIRST, i, payload))")], ["tree"]),
    Mutant("every node of a tree averages", [(REDUCE_TREESHOT, "mrw_unit_narrow(acc, root && a->average,", "mrw_unit_narrow(acc, a->average,")], ["tree"]),
    Mutant("the second tree has the first one's half", [(TREE, "\t\ts.offset = first;\n", "\t\ts.offset = 0;\n")], ["tree"]),
    Mutant("leaves leave before the team has put them", [(REDUCE_TREESHOT, "\tmrw_team_sync(team);\n", "")], ["tree teams"]),
    Mutant("sums leave before the team has put them", [(REDUCE_TREESHOT, "if (mrw_team_any(team, !ok)) /* the outbox is full */", "if (!ok)")], ["tree teams"]),
    Mutant("results leave before the team has put them", [(BRANCH, "\tif (mrw_team_any(team, !ok))\n\t\treturn false;\n\treturn mrw_twigs_post(", "\tif (!ok)\n\t\treturn false;\n\treturn mrw_twigs_post(")],
           ["tree teams"]),
    Mutant("a broadcast's packets leave before the team has put them", [(MOVE_TREESHOT, "\t\tmrw_team_sync(team);\n", "")], ["tree teams"]),
    Mutant("leaves wait before inner nodes work", [(BRANCH, "if (mrw_branch_is_leaf(a, k) == (leaf == 1))", "if (mrw_branch_is_leaf(a, k) == (leaf == 0))")], ["tree"]),
    Mutant("a barrier's node does not wait for its second child", [(MOVE_TREESHOT, "for (uint32_t k = MRW_TREE_FIRST; k <= MRW_TREE_SECOND; k++)", "for (uint32_t k = MRW_TREE_FIRST; k < MRW_TREE_SECOND; k++)")],
           ["tree barrier"]),
    Mutant("a barrier's packet down is not waited for", [(MOVE_TREESHOT, "parent, 1) || !mrw_twig_take(0, channel, a, seq, MRW_TREE_PARENT, 0, got))", "parent, 1))")], ["tree barrier"]),
    Mutant("children in trees are not side by side", [(REACH, "for (uint32_t i = 0; i < MRW_TREE_NEIGHBOURS; i++)\n\t\tfor (uint32_t k = 0; k < MRW_TREES; k++)",
                                                       "for (uint32_t i = MRW_TREE_NEIGHBOURS; i-- > 0;)\n\t\tfor (uint32_t k = 0; k < MRW_TREES; k++)")], ["reach", "tree"]),

    # The NIC's queue.
    Mutant("ranges become ready out of order", [(POST, "mrw_load_relaxed(&q->ready) != first; spins++", "mrw_load_relaxed(&q->ready) != first && spins < 1; spins++")],
           ["post"]),
    Mutant("who rings does not look again", [(POST, "marks = mrw_compare_swap_ordered(&q->ringing, seen, 0);", "mrw_publish(&q->ringing, 0);\n\t\tmarks = seen;")],
           ["post"]),
    Mutant("two ring at once", [(POST, "if (mrw_fetch_add(&q->ringing, 1) != 0)\n\t\treturn;", "(void)mrw_fetch_add(&q->ringing, 1);")], ["post", "tsan post"]),
    Mutant("the doorbell record is not masked", [(POST, "mrw_store_record(q->record, mrw_be32((uint32_t)(ready & 0xffff)))", "mrw_store_record(q->record, mrw_be32((uint32_t)ready))")],
           ["post"]),
    Mutant("a full ring is overwritten", [(POST, "> (int64_t)q->slots)", "> (int64_t)q->slots + 1)")], ["post"]),
    Mutant("a stale count of reservations fills the ring", [(POST, "if ((int64_t)(at + n - mrw_load_relaxed(&q->completed)) > (int64_t)q->slots)",
                                                            "if ((at + n - mrw_load_relaxed(&q->completed) & 0xff) > q->slots - 1)")], ["post"]),
    Mutant("slots are reused without order", [(POST, "\t\tmrw_observed(&q->completed); /* the NIC", "\t\t/* the NIC")], ["tsan post"], True),
    Mutant("ranges are handed on without order", [(POST, "\tmrw_observed(&q->ready); /* hands on", "\t/* hands on")], ["tsan post"], True),
    Mutant("the owner bit is ignored", [(CQE, " && (tail & 1) == ((at & slots) != 0)", " && (at & slots) <= slots")], ["post"]),
    Mutant("entries are read without order", [(POLL, "tail = mrw_cqe_tail(q->cq);", "tail = mrw_cqe_peek(q->cq);")], ["tsan post"], True),
    Mutant("entries are not given back", [(POLL, "\t\tmrw_store_record(q->cq_record,", "\t\tmrw_store_record((uint32_t *)(void *)&q->pad0,")], ["post"]),
    Mutant("the counter of a completion is not extended", [(POLL, "done += (mrw_cqe_counter(tail) + 1 - (uint32_t)done) & 0xffff;", "done = mrw_cqe_counter(tail) + 1;")],
           ["post"]),
    Mutant("who was overtaken counts all the same", [(POLL, "(void)mrw_compare_swap_ordered(&q->completed, done, done + news);", "mrw_publish(&q->completed, done + news);")],
           ["post"]),
    Mutant("two take entries at once", [(POLL, "if (mrw_compare_swap_ordered(&q->polling, 0, 1) != 0)\n\t\treturn true;", "(void)mrw_compare_swap_ordered(&q->polling, 0, 1);")],
           ["post", "tsan post"]),
    Mutant("an error is forgotten", [(POST, "\t\tif (mrw_load_relaxed(&q->failed) != 0)\n\t\t\treturn false;\n", "")], ["post"]),
    Mutant("a flush hides the error", [(POLL, "(void)mrw_compare_swap_ordered(&q->failed, 0, mrw_queue_fault(mrw_cqe_syndromes(cqe), index));",
                                       "mrw_publish(&q->failed, mrw_queue_fault(mrw_cqe_syndromes(cqe), index));"),
                                      (POLL, "\tif (mrw_load_relaxed(&q->failed) != 0)\n\t\treturn false;\n\treturn", "\treturn")], ["post"]),

    # Rooted and uneven reductions.
    Mutant("a reduce's senders keep their results", [(REDUCE_BULK, "\tif (mrw_is_sender(a))\n\t\ts.out =", "\tif (mrw_is_sender(a) && a->nranks == 0)\n\t\ts.out =")],
           ["random 3"]),
    Mutant("a reduce's root collects what is on its way", [(REDUCE_BULK, "mrw_bulk_collect(team, channel, a, round, t - 2 * lag);",
                                                           "mrw_bulk_collect(team, channel, a, round + (a->call.func == MRW_FUNC_REDUCE), t - 2 * lag);")],
           ["tsan 3", "random 3"]),
    Mutant("a reduce's last round is left out", [(SCHEDULE, "(mrw_has_root(func) && nranks > 2) ? 2 : 1;", "(func == MRW_FUNC_BROADCAST && nranks > 2) ? 2 : 1;")],
           ["schedule", "random 3"]),
    Mutant("over two ranks rank 0 owns a reduce", [(LAUNCH, "ends[0] = root == 0 ? block : 0;", "ends[0] = block;")], ["random"]),
    Mutant("uneven blocks begin with the second", [(SCHEDULE, "s.offset = r > 0 ? a->ends[r - 1] : 0;", "s.offset = a->ends[0];")], ["schedule"]),
    Mutant("rounds are those of the first block", [(SCHEDULE, "return a->uneven ? a->bytes : mrw_block_of", "return a->uneven ? a->ends[0] : mrw_block_of")],
           ["schedule"]),
    Mutant("counts are not compared", [(LAUNCH, "c->blocks = counts ? blocks_digest(ends, comm->nranks) : 0;", "c->blocks = 0;")], ["mismatch"]),
    Mutant("a result for a root on another host is not posted", [(REDUCE_BULK, "\tif (mrw_is_sender(a))\n\t\tmrw_stage_note(team, a, 1, channel, a->call.root, round, s.bytes);\n", "")],
           ["hosts"]),
    Mutant("reduce packets for a root on another host are not posted", [("src/collectives/reduce_packets.h", "(format == 1 || mrw_owns(a, p))", "(format == 1 || a->call.func != MRW_FUNC_REDUCE)")],
           ["hosts"]),

    # Communicators out of communicators.
    Mutant("ties of a split's keys have two winners", [("src/split.c", "child->rank += votes[r].key < votes[me].key || (votes[r].key == votes[me].key && r < me);",
                                                        "child->rank += votes[r].key < votes[me].key;")], ["split"]),
    Mutant("a refused split is the parent's end", [("src/split.c", "\tmine.status = child->async_status;", "\tif (child->async_status != MARROW_SUCCESS)\n\t\treturn child->async_status;")],
           ["split"]),
    Mutant("who is left out is not compared", [("src/boot_root.c", "if (without_of(hello) != boot->without)", "if (without_of(hello) == ~0ull)")],
           ["shrink"]),
    Mutant("the root does not go on listening", [("src/boot_setup.c", "MRW_TRY_GOTO(listen_again(&setup));", "")], ["shrink"]),

    # What ranks agree on.
    Mutant("an algorithm that only some ranks ask for passes", [(INTRODUCTION, "\tmine->terms.value[MRW_TERM_ALGO] = (uint64_t)(int64_t)comm->asked_algo;\n", "")],
           ["split"]),
    Mutant("a rank's own limit of channels counts", [(INTRODUCTION, "if (all[r].max_ctas && (all", "if (r == comm->rank && all[r].max_ctas && (all")],
           ["lifetimes"]),
    Mutant("the last rank's terms are not looked at", [(TERMS, "*rank < nranks; (*rank)++", "*rank + 1 < nranks; (*rank)++")], ["terms"]),

    # Choices.
    Mutant("a measured row ends one byte early", [(SELECT, "if (in->bytes <= rows[i].most && mrw", "if (in->bytes < rows[i].most && mrw")], ["select"]),
    Mutant("a calibration table is not followed", [(SELECT, "if (count == 0 && f != MRW_FUNC_BARRIER)", "if (f != MRW_FUNC_BARRIER)")], ["select"]),
    Mutant("a table of another machine is taken", [(TUNING, "if (r->machine && strcmp(r->tuning->machine, r->machine) != 0)", "if (!r->tuning->machine[0])")],
           ["tuning"]),
    Mutant("rows of a table may go down", [(TUNING, "if (same == 0 && row->most <= t->rows[i].most)", "if (same == 0 && row->most == t->rows[i].most)")],
           ["tuning"]),
    Mutant("a rank's bytes within the host are those of one peer", [("src/collectives/cost.c", "return w->blocks ? peers * w->bytes :", "return w->blocks ? w->bytes :")],
           ["cost"]),
    Mutant("ranks that share a NIC are not counted", [("src/collectives/cost.c", "w->f->net_byte_ns * (w->s->sharers > 1 ? w->s->sharers : 1)", "w->f->net_byte_ns")],
           ["cost"]),
    Mutant("no edge of a tree leaves its host", [("src/collectives/cost.c", "return a / s->per_host != b / s->per_host;", "return a / s->per_host == s->hosts;")],
           ["cost"]),
    Mutant("children of a tree get their packets at once", [("src/collectives/cost.c", "(up.far + down.queued) * 2 * part", "(up.far + down.far) * part")], ["cost"]),
    Mutant("few ranks may get trees", [("src/collectives/weigh.c", "if (nranks <= MRW_MAX_WHOLE || m->target", "if (m->target")], ["weigh"]),
    Mutant("a way is as good as at its last size", [("src/collectives/weigh.c", "if (w->has[k] && w->ns[k][i] / least > w->worst[k])", "if (w->has[k])")], ["weigh"]),
    Mutant("a way is taken that is a little better", [("src/collectives/weigh.h", "#define MRW_WEIGH_CLEAR 2.0", "#define MRW_WEIGH_CLEAR 1.1")], ["weigh"]),
]
