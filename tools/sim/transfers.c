/* transfers.c - what is made of transfers between pairs: move_transfers.h and lane.h. There are no rounds: a team takes a step of whichever of its
 * lanes can go on, as the body does; here it asks again when something has come or its NIC has done something. */
#include "lane_words.h"
#include "agenda.h"
#include "exchange.h"
#include "schedules.h"

#include <stdlib.h>
#include <sys/mman.h>

enum kind { POLL, SEND, ARRIVE, SETTLE };

struct team {
	bool begun, idle, done;
	uint32_t rank, channel, pick;
	struct mrw_lane_set active;
};

/* A rank's launch. */
struct part {
	uint32_t routes, selves, first_team;
};

struct exchange {
	const struct sim_cluster *cluster;
	struct sim_fabric fabric;
	struct sim_agenda agenda;
	uint64_t memory_bytes;
	uint32_t n, most, nteams;   /* most: routes of a rank */
	struct part *parts;         /* [rank] */
	struct mrw_route *routes;   /* [rank * most + route] */
	struct mrw_transfer *lists; /* [rank * (most + 2) + place]; behind those of routes the rank's with itself */
	struct team *teams;         /* a rank's in a row */
	double *start, *end;        /* [rank] when it enters the call; when its last team was done */
	double *busy, *greeted;     /* [rank] until when its memory works; when all greetings are here */
	double *times;              /* [rank] a straggler's */
	struct sim_parcel *parcels;
	uint32_t *free;
	uint32_t nparcels, parcel_room, nfree;
	uint64_t steps;
	void (*leaves)(struct sim_parcel *p);
	sim_listener listener;
	void *arg;
};

/* The launch of the rank of the moment. */
static struct mrw_transfers launch;
static struct mrw_lists lists;

static void bind(const struct exchange *x, uint32_t rank)
{
	sim.args.rank = launch.a.rank = rank;
	sim_enter_host(rank);
	launch.a.call.channels = sim.teams[rank];
	launch.routes = launch.first_self = x->parts[rank].routes;
	launch.selves = x->parts[rank].selves;
	lists.route = &x->routes[(uint64_t)rank * x->most];
	lists.list = &x->lists[(uint64_t)rank * (x->most + 2)];
}

static void put(struct exchange *x, double at, enum kind kind, uint32_t number)
{
	sim_lanes.no_memory = !sim_agenda_put(&x->agenda, at, kind, number) || sim_lanes.no_memory;
}

/* Number of an empty parcel. */
static uint32_t new_parcel(struct exchange *x)
{
	if (x->nfree > 0)
		return x->free[--x->nfree];
	if (x->nparcels == x->parcel_room) {
		uint32_t room = x->parcel_room ? 2 * x->parcel_room : 1024;
		struct sim_parcel *parcels = realloc(x->parcels, room * sizeof *parcels);
		uint32_t *spare = realloc(x->free, room * sizeof *spare);
		x->parcels = parcels ? parcels : x->parcels;
		x->free = spare ? spare : x->free;
		if (!parcels || !spare) {
			sim_lanes.no_memory = true;
			return 0;
		}
		memset(parcels + x->parcel_room, 0, (room - x->parcel_room) * sizeof *parcels);
		x->parcel_room = room;
	}
	return x->nparcels++;
}

static void drop(struct exchange *x, uint32_t number)
{
	sim_parcel_clear(&x->parcels[number]);
	x->free[x->nfree++] = number;
}

static void wake(struct exchange *x, uint32_t team, double now)
{
	if (!x->teams[team].idle)
		return;
	x->teams[team].idle = false;
	put(x, now, POLL, team);
}

/* Team of the other end of the lane that sent a parcel. */
static uint32_t other_team(const struct exchange *x, const struct sim_parcel *p)
{
	uint32_t way = p->way == MRW_WAY_OUT ? MRW_WAY_IN : MRW_WAY_OUT, i = 0;
	const struct mrw_route *r = &x->routes[(uint64_t)p->dst * x->most];
	const struct part *part = &x->parts[p->dst];
	while (r[i].peer != p->src || r[i].way != way)
		i++;
	return part->first_team + (p->lane * part->routes + i) % sim.teams[p->dst];
}

/* Time of what has been loaded and stored: teams of a rank share its memory. */
static double work(struct exchange *x, uint32_t r, double now, double fixed_us)
{
	const struct sim_cluster *c = x->cluster;
	double share = c->cores > 0 && sim.gpus > c->cores ? sim.gpus / c->cores : 1;
	double own = (double)(sim.loaded + sim.stored) / c->memory_gb_s * x->times[r] * share;
	x->busy[r] = (now > x->busy[r] ? now : x->busy[r]) + own;
	return x->busy[r] + fixed_us * 1000 * x->times[r] * share;
}

/* The step of lane number pick. Returns when the team goes on. */
static double step(struct exchange *x, uint32_t team, uint32_t pick, double now)
{
	static const struct mrw_team alone = {0, 1, NULL, NULL};
	const struct sim_cluster *c = x->cluster;
	uint32_t r = x->teams[team].rank, number = new_parcel(x);
	struct mrw_stand h;
	if (sim_lanes.no_memory)
		return now;
	struct sim_parcel *p = sim_lanes.parcel = &x->parcels[number];
	(void)mrw_stand_find(&launch, pick, &h);
	p->src = r;
	p->dst = h.peer;
	p->lane = h.lane;
	p->way = h.way;
	p->team = team;
	sim_lanes.source = h.way == MRW_WAY_IN ? h.peer : r;
	sim.loaded = sim.stored = sim_lanes.near = 0;
	bool passes = h.step == MRW_STEP_PASS;
	(void)mrw_lane_go(&alone, &launch, &h, 0, true);
	x->steps++;
	if (x->leaves)
		x->leaves(p);
	double left = now, there = 0;
	if (sim_lanes.near > 0 && x->fabric.near_ns > 0)
		left = sim_fabric_store(&x->fabric, r, p->dst, sim_lanes.near, now, &there);
	else
		sim.stored += sim_lanes.near;
	double end = work(x, r, now, passes ? c->round_us : c->packet_us);
	end = left > end ? left : end;
	if (p->queue) {
		put(x, end, SEND, number);
		return end + p->requests * c->post_us * 1000 * x->times[r];
	}
	double at = end + x->fabric.near_latency_ns;
	if (p->puts > 0)
		put(x, there > at ? there : at, ARRIVE, number);
	else
		drop(x, number);
	return end;
}

static void poll(struct exchange *x, uint32_t team, double now)
{
	static const struct mrw_team alone = {0, 1, NULL, NULL};
	struct team *t = &x->teams[team];
	uint32_t r = t->rank, channel = t->channel;
	bind(x, r);
	if (!t->begun) {
		t->begun = true;
		t->active = mrw_lanes_active(&launch, channel, mrw_lanes_peek(&alone, &launch, channel));
		sim.loaded = sim.stored = 0;
		sim_lanes.source = r;
		mrw_selves_copy(&alone, &launch, channel);
		put(x, work(x, r, now, 0), POLL, team);
		return;
	}
	uint32_t pick = mrw_lanes_pick(&launch, 0, &t->active, t->pick);
	t->idle = pick == MRW_PICK_LEAVE;
	t->done = pick == MRW_PICK_DONE;
	if (t->done)
		x->end[r] = now > x->end[r] ? now : x->end[r];
	if (pick >= MRW_PICK_LEAVE)
		return;
	t->pick = (pick + 1) & (64 * MRW_LANE_WORDS - 1);
	put(x, step(x, team, pick, now), POLL, team);
}

static void take(struct exchange *x, const struct sim_event *e)
{
	struct sim_parcel *p = e->kind == POLL ? NULL : &x->parcels[e->number];
	switch (e->kind) {
	case POLL:
		poll(x, e->number, e->at);
		break;
	case SEND: {
		uint32_t nic = p->lane % sim.far.nics;
		if (x->listener)
			x->listener(x->arg, p->src, p->dst, nic, p->bytes, p->requests);
		put(x, sim_fabric_send(&x->fabric, p->src, p->dst, nic, p->bytes, p->requests, e->at), ARRIVE, e->number);
		break;
	}
	case ARRIVE:
		sim_parcel_deliver(p);
		wake(x, other_team(x, p), e->at);
		if (p->queue)
			put(x, e->at + x->fabric.latency_ns, SETTLE, e->number);
		else
			drop(x, e->number);
		break;
	default:
		p->queue->completed = p->behind > p->queue->completed ? p->behind : p->queue->completed;
		wake(x, p->team, e->at);
		drop(x, e->number);
	}
}

/* Opening lines, which all peers wait for at the end. */
static void greet(struct exchange *x, uint32_t r)
{
	for (uint32_t q = 1; q < x->n; q++) {
		uint32_t p = (r + q) % x->n;
		double at = x->start[r] + x->fabric.near_latency_ns;
		if (!mrw_reach_is_peer(&sim.reach, r, p))
			continue;
		if (!sim_same_host(p, r)) {
			if (x->listener)
				x->listener(x->arg, r, p, 0, sizeof(struct mrw_greeting), 1);
			at = sim_fabric_send(&x->fabric, r, p, 0, sizeof(struct mrw_greeting), 1, x->start[r]);
		}
		x->greeted[p] = at > x->greeted[p] ? at : x->greeted[p];
	}
}

static void tell_apart(struct sim_move m)
{
	uint64_t pieces = m.is ? (m.bytes + sim_grain(m.bytes) - 1) / sim_grain(m.bytes) : 0;
	sim_lanes.grains = pieces > sim_lanes.grains ? pieces : sim_lanes.grains;
}

static struct mrw_transfer transfer_of(uint8_t *buffer, uint64_t bytes, uint32_t peer, uint32_t way)
{
	uint32_t func = sim.args.call.func;
	if (func == MRW_FUNC_TRANSFERS)
		func = way == MRW_WAY_OUT ? MRW_FUNC_SEND : MRW_FUNC_RECV;
	return (struct mrw_transfer){bytes ? buffer : NULL, bytes, (uint8_t)peer, (uint8_t)way, (uint8_t)func, 0, 0};
}

/* Who sends what to whom: as exchange.c lists it. */
static void list(struct exchange *x, uint32_t r)
{
	struct part *part = &x->parts[r];
	struct mrw_route *routes = &x->routes[(uint64_t)r * x->most];
	struct mrw_transfer *of_rank = &x->lists[(uint64_t)r * (x->most + 2)];
	for (uint32_t i = 0; i < x->most; i++) {
		uint32_t way = i % MRW_WAYS, p = mrw_route_peer(r, x->n, i / MRW_WAYS + 1, (enum mrw_way)way), at = part->routes;
		struct sim_move m = way == MRW_WAY_OUT ? sim_move_of(&sim.args, r, p) : sim_move_of(&sim.args, p, r);
		if (!m.is)
			continue;
		uint32_t lanes = mrw_route_lanes(&sim.args.layout, 0, mrw_transfer_width(&sim.args.layout, m.bytes, sim_lanes.cuda));
		of_rank[at] = transfer_of(way == MRW_WAY_OUT ? SIM_IN + m.from : SIM_OUT + m.to, m.bytes, p, way);
		routes[part->routes++] = (struct mrw_route){at, 1, (uint8_t)p, (uint8_t)way, (uint8_t)lanes, 0};
		tell_apart(m);
	}
	struct sim_move m = sim_move_of(&sim.args, r, r);
	part->selves = m.is;
	of_rank[part->routes] = transfer_of(SIM_IN + m.from, m.bytes, r, MRW_WAY_OUT);
	of_rank[part->routes + 1] = transfer_of(SIM_OUT + m.to, m.bytes, r, MRW_WAY_IN);
	tell_apart(m);
}

static bool open_exchange(struct exchange *x)
{
	const struct mrw_layout *l = &sim.args.layout;
	uint64_t n = x->n;
	sim_lanes.cuda = x->cluster->cuda;
	for (uint32_t r = 0; r < n; r++)
		x->nteams += sim.teams[r];
	x->parts = calloc(n, sizeof *x->parts);
	x->routes = calloc(n * x->most, sizeof *x->routes);
	x->lists = calloc(n * (x->most + 2), sizeof *x->lists);
	x->teams = calloc(x->nteams, sizeof *x->teams);
	x->start = calloc(5 * n, sizeof *x->start);
	sim_lanes.queues = calloc(n * n * l->lanes, sizeof *sim_lanes.queues);
	for (uint32_t r = 0; x->parts && x->routes && x->lists && r < n; r++)
		list(x, r);
	sim_lanes.seen = calloc(n * sim_seen_words() + 1, sizeof *sim_lanes.seen);
	sim_lanes.got = calloc(n, sizeof *sim_lanes.got);
	x->memory_bytes = n * l->bytes;
	void *memory = mmap(NULL, x->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	sim_lanes.memory = memory == MAP_FAILED ? NULL : memory;
	if (!x->parts || !x->routes || !x->lists || !x->teams || !x->start || !sim_lanes.queues || !sim_lanes.seen || !sim_lanes.got || !sim_lanes.memory ||
	    !sim_fabric_open(&x->fabric, x->cluster))
		return false;
	x->end = x->start + n;
	x->busy = x->end + n;
	x->greeted = x->busy + n;
	x->times = x->greeted + n;
	launch.a = sim.args;
	launch.more = &lists;
	uint32_t number = 0;
	for (uint32_t r = 0; r < x->n; r++) {
		launch.a.arena[r] = sim_lanes.memory + r * l->bytes;
		x->parts[r].first_team = number;
		for (uint32_t ch = 0; ch < sim.teams[r]; ch++)
			x->teams[number++] = (struct team){.rank = r, .channel = ch};
	}
	return true;
}

static void close_exchange(struct exchange *x)
{
	for (uint32_t i = 0; i < x->nparcels; i++) {
		free(x->parcels[i].put);
		free(x->parcels[i].data);
	}
	free(x->parcels);
	free(x->free);
	free(x->parts);
	free(x->routes);
	free(x->lists);
	free(x->teams);
	free(x->start);
	free(sim_lanes.queues);
	free(sim_lanes.seen);
	free(sim_lanes.got);
	if (sim_lanes.memory)
		munmap(sim_lanes.memory, x->memory_bytes);
	sim_fabric_close(&x->fabric);
	sim_agenda_close(&x->agenda);
	memset(&sim_lanes, 0, sizeof sim_lanes);
}

static void begin(struct exchange *x)
{
	const struct sim_cluster *c = x->cluster;
	for (uint32_t r = 0; r < x->n; r++) {
		x->times[r] = 1;
		x->start[r] = c->call_us * 1000;
	}
	for (uint32_t i = 0; i < c->nlates; i++) {
		x->times[(uint32_t)c->late[i].rank] = c->late[i].times;
		x->start[(uint32_t)c->late[i].rank] += c->late[i].us * 1000;
	}
	for (uint32_t r = 0; r < x->n; r++) {
		if (!mrw_is_pairwise(sim.args.call.func)) /* sends and recvs are no operation of all */
			greet(x, r);
		for (uint32_t ch = 0; ch < sim.teams[r]; ch++)
			put(x, x->start[r], POLL, x->parts[r].first_team + ch);
	}
}

/* Nothing is left to happen. */
static void judge(struct exchange *x, bool check)
{
	for (uint32_t i = 0; i < x->nteams; i++) {
		struct team *t = &x->teams[i];
		struct mrw_lane_set rest = t->active;
		struct mrw_stand h;
		if (t->done)
			continue;
		bind(x, t->rank);
		if (mrw_lanes_left(&rest) && mrw_stand_find(&launch, mrw_lanes_take(&rest), &h))
			sim_fault("deadlock: rank %u waits for rank %u, %s it, in step %u of lane %u", t->rank, h.peer,
				  h.way == MRW_WAY_OUT ? "sending" : "receiving from", h.step, h.lane);
		else
			sim_fault("deadlock: a team of rank %u never ends", t->rank);
	}
	for (uint32_t r = 0; check && r < x->n; r++)
		if (sim_lanes.got[r] != sim_move_comes(&sim.args, r))
			sim_fault("rank %u ends with %llu of %llu bytes", r, (unsigned long long)sim_lanes.got[r],
				  (unsigned long long)sim_move_comes(&sim.args, r));
}

static void tell(const struct exchange *x, struct sim_answer *answer)
{
	double last = 0, first = 0;
	for (uint32_t r = 0; r < x->n; r++) {
		double end = x->end[r] > x->greeted[r] ? x->end[r] : x->greeted[r];
		last = end > last ? end : last;
		first = r == 0 || end < first ? end : first;
	}
	answer->us = last / 1000;
	answer->first_us = first / 1000;
	answer->steps = x->steps;
	memcpy(answer->bytes, x->fabric.bytes, sizeof answer->bytes);
	memcpy(answer->messages, x->fabric.messages, sizeof answer->messages);
	for (uint32_t i = 0; i < SIM_CLASSES; i++)
		answer->load[i] = sim_fabric_load(&x->fabric, (enum sim_class)i, last);
}

void sim_exchange_run(const struct sim_cluster *c, const struct sim_call *call, bool check, sim_listener listener, void *arg,
		      struct sim_answer *answer)
{
	struct exchange x = {.cluster = c, .n = sim.args.nranks, .most = MRW_WAYS * (sim.args.nranks - 1),
			     .leaves = call->schedule->leaves, .listener = listener, .arg = arg};
	struct sim_event e;
	if (c->cuda && x.most > MRW_MAX_ROUTES) {
		answer->plan.paper = true;
		answer->plan.why = "the library's transfers on GPUs go among 33 ranks at most";
	}
	if (open_exchange(&x)) {
		begin(&x);
		while (!sim.fault[0] && !sim_lanes.no_memory && sim_agenda_take(&x.agenda, &e))
			take(&x, &e);
		if (!sim.fault[0] && !sim_lanes.no_memory)
			judge(&x, check);
		tell(&x, answer);
	} else
		sim_lanes.no_memory = true;
	if (sim_lanes.no_memory)
		sim_fault("no memory for %u ranks", sim.args.nranks);
	close_exchange(&x);
}

static bool has(uint32_t func)
{
	return func == MRW_FUNC_ALL_TO_ALL || func == MRW_FUNC_ALL_TO_ALL_V || func == MRW_FUNC_ALL_GATHER_V || func == MRW_FUNC_GATHER ||
	       func == MRW_FUNC_SCATTER || func == MRW_FUNC_TRANSFERS;
}

const struct sim_schedule sim_transfers = {"transfers", MRW_ALGO_TRANSFERS, false, false, has, NULL, NULL, NULL, NULL, false};
