/* engine.c - rounds begin, bodies run, NICs send, counters arrive. */
#include "exchange.h"
#include "run.h"
#include "collectives/tree.h"
#include "device/team.h"

#include <stdlib.h>

/* The rank whose words are spoken from now on. */
static void bind(uint32_t rank)
{
	sim.args.rank = rank;
	sim_enter_host(rank);
	if (sim.reach.ring || sim.reach.tree) {
		sim.far.host = sim.reach.position[rank];
		sim.far.local = 0;
		memcpy(sim.far.tree, sim.trees[rank], sizeof sim.far.tree);
	} else if (sim.reach.rails) {
		sim.far.host = sim.reach.host[rank];
		sim.far.local = sim.reach.local[rank];
	}
}

/* If all that a rank waits for before it enters its next round is known: it does so when the last of it is here. */
static void schedule(struct run *run, uint32_t r)
{
	struct rank *k = &run->ranks[r];
	uint64_t t = k->round;
	double at = k->end;
	if (t == k->rounds || (t > 0 && !sim_has_come(k, t - 1)))
		return;
	if (k->far_count > 0 && !run->call->schedule->packets && run->batches[r * BATCHES + (t & run->kept)].active)
		return;
	if (t > 0)
		at = k->at[(t - 1) % KEPT] > at ? k->at[(t - 1) % KEPT] : at;
	at = k->settled[t & run->kept] > at ? k->settled[t & run->kept] : at;
	sim_clock_put(&run->clock, r, at);
}

/* What a rank sent p in round t is there at at_ns. */
static inline void deliver(struct run *run, uint32_t p, uint64_t t, bool far, double at_ns)
{
	struct rank *k = &run->ranks[p];
	bool before = k->round == t + 1 && !sim_has_come(k, t);
	if (at_ns > k->at[t % KEPT])
		k->at[t % KEPT] = at_ns;
	if (far)
		k->got_far[t % KEPT]++;
	else
		k->got_near[t % KEPT]++;
	if (before && sim_has_come(k, t))
		schedule(run, p);
}

/* The same of packets, for the phases that wait for them. */
static void deliver_packets(struct run *run, uint32_t p, uint32_t phases, bool far, double at_ns)
{
	for (uint32_t t = 0; t < KEPT; t++)
		if (phases >> t & 1)
			deliver(run, p, t, far, at_ns);
}

static bool is_far(uint32_t p)
{
	return p - sim.first >= sim.gpus;
}

/* The NIC of rank r goes on when it can. */
static void wake(struct run *run, uint32_t r, double at)
{
	if (run->ranks[r].sending)
		return;
	run->ranks[r].sending = true;
	sim_clock_put(&run->clock, run->n + r, at);
}

/* Greetings, all at the rank's first moment: the line to near peers, line and call to far ones. */
static void greet(struct run *run, uint32_t r)
{
	struct rank *k = &run->ranks[r];
	double near = k->end + run->fabric.near_latency_ns;
	for (uint32_t i = 0; i < k->near_count; i++) {
		uint32_t p = sim.first + run->near[r * run->most_near + i];
		struct rank *peer = &run->ranks[p];
		peer->greeted = near > peer->greeted ? near : peer->greeted;
		if (sim.roll.on)
			sim_roll_meet(&sim.roll, p, r);
	}
	if (k->far_count == 0)
		return;
	run->batches[r * BATCHES + GREETING] = (struct batch){.active = true, .greeting = true, .from = k->end, .quantum = run->clock.width};
	wake(run, r, k->end);
}

/* Message number next of a batch, if there is one to that peer. */
static void send_one(struct run *run, uint32_t r, struct batch *b, uint32_t slot, double at)
{
	uint32_t p = sim_peer(&sim.reach, r, sim.args.layout.near_slots + slot);
	uint32_t phases = 0;
	double came = 0;
	if (p == MRW_TREE_NONE || !is_far(p))
		return;
	for (uint32_t n = 0; n < run->nics; n++) {
		uint64_t bytes = sizeof(struct mrw_greeting);
		uint32_t requests = n == 0;
		if (!b->greeting) {
			uint64_t row = ((b->round & run->kept) * run->n + r) * run->far_slots + slot;
			const struct sim_note *kind = &run->kinds[run->sends[row * run->nics + n]];
			phases |= kind->phases;
			bytes = kind->bytes + 8 * b->counters[n];
			requests = kind->requests + b->counters[n];
		}
		if (requests == 0)
			continue;
		double there = sim_fabric_send(&run->fabric, r, p, n, bytes, requests, at);
		if (run->listener)
			run->listener(run->arg, r, p, n, bytes, requests);
		came = there > came ? there : came;
	}
	b->last = came > b->last ? came : b->last;
	if (!b->greeting && came > 0 && run->call->schedule->packets)
		deliver_packets(run, p, phases, true, came);
	else if (!b->greeting && came > 0)
		deliver(run, p, b->round, true, came);
	else if (came > run->ranks[p].greeted)
		run->ranks[p].greeted = came;
	if (b->greeting && sim.roll.on)
		sim_roll_meet(&sim.roll, p, r);
}

/* The oldest batch; NULL: none. */
static struct batch *oldest(const struct run *run, uint32_t r)
{
	struct batch *of_rank = &run->batches[r * BATCHES], *oldest = NULL;
	if (of_rank[GREETING].active)
		return &of_rank[GREETING];
	for (uint32_t i = 0; i <= run->kept; i++)
		if (of_rank[i].active && (!oldest || of_rank[i].round < oldest->round))
			oldest = &of_rank[i];
	return oldest;
}

/* Rank r's NIC sends what it can in this moment. */
static void transmit(struct run *run, uint32_t r, double now)
{
	struct rank *k = &run->ranks[r];
	struct batch *b;
	double post = run->cluster->post_us * 1000 * k->times;
	/* A NIC serves its queue pairs in turn: nobody is the first whom all serve. */
	uint32_t start = sim.reach.rails ? sim.reach.host[r] : sim.reach.ring || sim.reach.tree ? 0 : r;
	bind(r);
	k->sending = false;
	while ((b = oldest(run, r))) {
		for (; b->next < run->far_slots; b->next++) {
			uint32_t slot = b->next + start;
			double at = b->from + b->next * post;
			for (uint32_t n = 0; n < run->nics; n++) {
				double ready = sim_fabric_ready(&run->fabric, r, n);
				at = ready > at ? ready : at;
			}
			if (at > now + b->quantum) {
				wake(run, r, at);
				return;
			}
			send_one(run, r, b, slot < run->far_slots ? slot : slot - run->far_slots, at);
		}
		b->active = false;
		if (!b->greeting) {
			k->settled[b->round & run->kept] = b->last + run->fabric.latency_ns;
			if (k->round == b->round + 2 && !run->call->schedule->packets)
				schedule(run, r);
		}
	}
}

/* Number of a kind of message; 0: none is noted. */
static uint16_t kind_of(struct run *run, const struct sim_note *note)
{
	const struct sim_note *last = &run->kinds[run->last_kind];
	if (last->bytes == note->bytes && last->requests == note->requests && last->phases == note->phases)
		return (uint16_t)run->last_kind;
	for (uint32_t i = 0; i < run->nkinds; i++)
		if (run->kinds[i].bytes == note->bytes && run->kinds[i].requests == note->requests && run->kinds[i].phases == note->phases)
			return (uint16_t)(run->last_kind = i);
	if (run->nkinds == UINT16_MAX) {
		sim_fault("more than %d different messages", UINT16_MAX);
		return 0;
	}
	run->kinds[run->nkinds] = *note;
	return (uint16_t)(run->last_kind = run->nkinds++);
}

/* What the bodies noted of round t becomes a batch, posted from on. Returns to how many peers they send what is no counter. */
static uint32_t post_round(struct run *run, uint32_t r, uint64_t t, const uint32_t *counters, double from)
{
	struct batch *b = &run->batches[r * BATCHES + (t & run->kept)];
	uint16_t *sends = &run->sends[((t & run->kept) * run->n + r) * run->far_slots * run->nics];
	double bytes = 0;
	uint32_t peers = 0;
	if (b->active)
		sim_fault("rank %u sends in round %llu while its NIC still sends what it sent two rounds ago", r, (unsigned long long)t);
	*b = (struct batch){.active = true, .round = t, .from = from};
	memcpy(b->counters, counters, sizeof b->counters);
	for (uint32_t s = 0; s < run->far_slots; s++) {
		bool noted = false;
		for (uint32_t n = 0; n < run->nics; n++) {
			struct sim_note *note = &sim.notes[(sim.args.layout.near_slots + s) * run->nics + n];
			sends[s * run->nics + n] = kind_of(run, note);
			bytes += (double)note->bytes;
			noted = noted || note->requests > 0;
			*note = (struct sim_note){0, 0, 0};
		}
		peers += noted;
	}
	b->quantum = bytes * run->fabric.nic_ns / run->nics / 64;
	b->quantum = b->quantum > run->clock.width ? b->quantum : run->clock.width;
	wake(run, r, from);
	return peers;
}

/* The bodies of round t on all channels. counters[i]: channels whose counter goes by NIC number i. */
static void work(struct run *run, uint32_t r, uint64_t t, uint32_t *counters)
{
	static const struct mrw_team alone = {0, 1, NULL, NULL};
	struct sim_cursor *cursor = &run->cursors[(uint64_t)r * sim.args.call.channels];
	sim.loaded = sim.stored = sim.staged = sim.noted = 0;
	sim.phase = (uint32_t)t;
	sim.replays = false;
	memset(sim.near, 0, sim.gpus * sizeof sim.near[0]);
	memset(sim.near_phases, 0, sim.gpus * sizeof sim.near_phases[0]);
	for (uint32_t c = 0; c < sim.args.call.channels; c++) {
		if (t >= cursor[c].rounds)
			continue;
		sim.channel = c;
		run->call->schedule->round(&alone, &sim.args, c, t, &cursor[c]);
		if (run->nics > 0 && !run->call->schedule->packets)
			counters[c % run->nics]++;
	}
	if (sim.staged != sim.noted && !run->call->schedule->packets)
		sim_fault("rank %u staged %llu bytes for other hosts in round %llu and sends %llu", r, (unsigned long long)sim.staged,
			  (unsigned long long)t, (unsigned long long)sim.noted);
}

/* Whom rank r waits for before its next phase. */
static void learn_needs(struct run *run, uint32_t r)
{
	struct rank *k = &run->ranks[r];
	uint32_t counters[MRW_MAX_NICS] = {0};
	sim.stamp++;
	sim.await_near = sim.await_far = 0;
	sim.dry = true;
	if (k->round < k->rounds)
		work(run, r, k->round, counters);
	sim.dry = false;
	k->need_near = sim.await_near;
	k->need_far = sim.await_far;
}

/* Stores to ranks of the host, from at on: when the last one has left. there[i]: when they are at rank number i. */
static double push_near(struct run *run, uint32_t r, double at, double *there)
{
	double left = at;
	uint32_t local = r - sim.first;
	for (uint32_t i = 1; i < sim.gpus; i++) {
		uint32_t l = local + i < sim.gpus ? local + i : local + i - sim.gpus;
		there[l] = 0;
		if (sim.near[l] == 0)
			continue;
		if (run->fabric.near_ns > 0)
			left = sim_fabric_store(&run->fabric, r, sim.first + l, sim.near[l], at, &there[l]);
		else
			sim.stored += sim.near[l];
	}
	return left;
}

/* Round t of rank r, which begins it now. */
static void step(struct run *run, uint32_t r, double now)
{
	struct rank *k = &run->ranks[r];
	const struct sim_cluster *c = run->cluster;
	uint64_t t = k->round;
	uint32_t counters[MRW_MAX_NICS] = {0};
	double there[64], share = c->cores > 0 && sim.gpus > c->cores ? sim.gpus / c->cores : 1, posts = 0;
	bind(r);
	if (sim.roll.on)
		sim_call_the_roll(run, r, t);
	work(run, r, t, counters);
	bool packets = run->call->schedule->packets;
	double left = push_near(run, r, now, there);
	double own = (double)(sim.loaded + sim.stored) / c->memory_gb_s, fixed = packets ? c->packet_us : c->round_us;
	if (packets && sim.loaded + sim.stored + sim.noted == 0 && left == now) /* a phase that others have */
		fixed = 0;
	double end = now + (own + fixed * 1000) * k->times * share;
	end = left > end ? left : end;
	if (k->far_count > 0 && (!packets || sim.noted > 0)) {
		uint32_t peers = post_round(run, r, t, counters, end);
		for (uint32_t i = 0; i < run->nics; i++)
			posts += packets ? peers : counters[i] * k->far_count;
	}
	k->round = t + 1;
	k->end = end + posts * c->post_us * 1000 * k->times;
	uint64_t behind = (t + KEPT - 1) % KEPT; /* round t - 1 */
	if (!packets) {
		k->got_near[behind] = k->got_far[behind] = 0;
		k->at[behind] = 0;
	}
	for (uint32_t i = 0; i < k->near_count; i++) {
		uint32_t l = run->near[r * run->most_near + i];
		double at = end + run->fabric.near_latency_ns;
		at = there[l] > at ? there[l] : at;
		if (packets)
			deliver_packets(run, sim.first + l, sim.near_phases[l], false, at);
		else
			deliver(run, sim.first + l, t, false, at);
	}
	if (packets)
		learn_needs(run, r);
	schedule(run, r);
	run->answer->steps++;
}

static bool open_run(struct run *run)
{
	const struct sim_cluster *c = run->cluster;
	uint32_t channels = sim.args.call.channels;
	double latencies[] = {c->nvlink_us, c->nic_us, c->round_us}, shortest = 1;
	bool found = false;
	for (uint32_t i = 0; i < 3; i++)
		if (latencies[i] > 0 && (!found || latencies[i] < shortest)) {
			shortest = latencies[i];
			found = true;
		}
	run->n = sim.args.nranks;
	run->peers = sim.args.layout.slots;
	run->nics = sim.args.far ? sim.far.nics : 0;
	run->kept = sim.reach.tree && run->call->schedule->packets ? KEPT - 1 : 1;
	run->ranks = calloc(run->n, sizeof *run->ranks);
	run->batches = calloc((size_t)run->n * BATCHES, sizeof *run->batches);
	run->most_near = sim_cluster_most_gpus(c);
	run->near = calloc((size_t)run->n * run->most_near, sizeof *run->near);
	run->cursors = calloc((size_t)run->n * channels, sizeof *run->cursors);
	run->far_slots = sim.args.layout.slots - sim.args.layout.near_slots;
	run->nkinds = 1;
	run->kinds = calloc(UINT16_MAX, sizeof *run->kinds);
	sim.stamp = 0;
	sim.awaited = calloc(run->peers, sizeof *sim.awaited);
	sim.notes = calloc((size_t)run->peers * (run->nics ? run->nics : 1), sizeof *sim.notes);
	run->sends = run->nics ? calloc((size_t)(run->kept + 1) * run->n * run->far_slots * run->nics, sizeof *run->sends) : NULL;
	return run->ranks && run->batches && run->near && run->cursors && run->kinds && sim.notes && sim.awaited && (run->sends || run->nics == 0) && sim_fabric_open(&run->fabric, c) &&
	       sim_clock_open(&run->clock, 2 * run->n, shortest * 1000 / 8);
}

static void begin(struct run *run)
{
	const struct sim_cluster *c = run->cluster;
	for (uint32_t r = 0; r < run->n; r++) {
		run->ranks[r].times = 1;
		run->ranks[r].end = c->call_us * 1000;
	}
	for (uint32_t i = 0; i < c->nlates; i++) {
		run->ranks[(uint32_t)c->late[i].rank].times = c->late[i].times;
		run->ranks[(uint32_t)c->late[i].rank].end += c->late[i].us * 1000;
	}
	for (uint32_t r = 0; r < run->n; r++) {
		struct rank *k = &run->ranks[r];
		bind(r);
		for (uint32_t p = sim.first; p < sim.first + sim.gpus; p++)
			if (mrw_reach_is_peer(&sim.reach, r, p))
				run->near[r * run->most_near + k->near_count++] = (uint8_t)(p - sim.first);
		for (uint32_t s = 0; s < run->peers; s++)
			k->far_count += sim_peer(&sim.reach, r, s) != MRW_TREE_NONE;
		k->far_count -= k->near_count;
		k->need_near = k->near_count;
		k->need_far = k->far_count;
		for (uint32_t ch = 0; ch < sim.args.call.channels; ch++) {
			struct sim_cursor *cursor = &run->cursors[(uint64_t)r * sim.args.call.channels + ch];
			run->call->schedule->begin(&sim.args, ch, cursor);
			run->ranks[r].rounds = cursor->rounds > run->ranks[r].rounds ? cursor->rounds : run->ranks[r].rounds;
		}
		run->answer->rounds = run->ranks[r].rounds > run->answer->rounds ? run->ranks[r].rounds : run->answer->rounds;
		greet(run, r);
	}
	for (uint32_t r = 0; r < run->n; r++) {
		bind(r);
		if (run->call->schedule->packets)
			learn_needs(run, r);
		schedule(run, r);
	}
}

static void close_run(struct run *run)
{
	free(run->ranks);
	free(run->batches);
	free(run->near);
	free(run->cursors);
	free(run->sends);
	free(run->kinds);
	free(sim.notes);
	sim.notes = NULL;
	free(sim.awaited);
	sim.awaited = NULL;
	sim_fabric_close(&run->fabric);
	sim_clock_close(&run->clock);
	sim_ledger_close(&sim.ledger);
	sim_roll_close(&sim.roll);
}

/* Parts in which a call cuts its buffer; 0: blocks of ranks. */
static uint32_t parts_of(const struct sim_call *call)
{
	bool shares = mrw_has_shares(call->func), broadcast = call->func == MRW_FUNC_BROADCAST;
	if (call->schedule->algo == MRW_ALGO_TREE)
		return mrw_tree_parts(sim.args.bytes);
	if (call->schedule->packets && shares && call->schedule->algo != MRW_ALGO_TWOSHOT)
		return 1;
	if (broadcast && (call->schedule->algo == MRW_ALGO_RING || mrw_exchanges(call->func, sim.args.nranks) == 1))
		return 1;
	return shares && sim.args.uneven;
}

bool sim_run(const struct sim_cluster *c, const struct sim_call *call, bool check, sim_listener listener, void *arg, struct sim_answer *answer)
{
	static struct run run; /* the clock's buckets are large */
	uint32_t r;
	double now;
	memset(&run, 0, sizeof run);
	memset(answer, 0, sizeof *answer);
	run.cluster = c;
	run.call = call;
	run.listener = listener;
	run.arg = arg;
	run.answer = answer;
	if (sim_plan_make(c, call, &answer->plan)) {
		answer->channels = sim.args.call.channels;
		answer->chunk_bytes = sim.args.call.chunk_bytes;
		if (call->schedule->algo == MRW_ALGO_TRANSFERS) {
			sim_exchange_run(c, call, check, listener, arg, answer);
			memcpy(answer->fault, sim.fault, sizeof answer->fault);
			return answer->fault[0] == '\0';
		}
		sim.arrives = call->schedule->arrives;
		bool barrier = call->func == MRW_FUNC_BARRIER;
		if (!open_run(&run) || !sim_ledger_open(&sim.ledger, &sim.args, parts_of(call), call->schedule->packets, check) ||
		    !sim_roll_open(&sim.roll, sim.args.nranks, barrier && check))
			sim_fault("no memory for %u ranks", sim.args.nranks);
		else {
			begin(&run);
			while (!sim.fault[0] && sim_clock_take(&run.clock, &r, &now))
				r < run.n ? step(&run, r, now) : transmit(&run, r - run.n, now);
			if (!sim.fault[0])
				sim_name_the_stuck(&run);
			if (!sim.fault[0] && check && barrier)
				sim_check_roll(&run);
			else if (!sim.fault[0] && check)
				sim_check_outputs(&run);
			sim_tell(&run);
		}
		close_run(&run);
	}
	memcpy(answer->fault, sim.fault, sizeof answer->fault);
	return answer->fault[0] == '\0';
}
