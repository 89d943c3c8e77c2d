/* verdict.c - what a run has shown. */
#include "run.h"

/* Whether a rank, which nothing can happen to any more, has come to its end: all its rounds, and across hosts the last counters of all peers. */
static bool is_over(const struct run *run, const struct rank *k)
{
	if (k->round < k->rounds)
		return false;
	return run->nics == 0 || k->rounds == 0 || run->call->schedule->packets || sim_has_come(k, k->rounds - 1);
}

void sim_name_the_stuck(const struct run *run)
{
	uint32_t stuck = 0;
	for (uint32_t r = 0; r < run->n; r++)
		stuck += !is_over(run, &run->ranks[r]);
	if (stuck == 0)
		return;
	for (uint32_t r = 0; r < run->n; r++) {
		const struct rank *k = &run->ranks[r];
		if (is_over(run, k))
			continue;
		for (uint32_t s = 0; s < run->peers; s++) {
			uint32_t p = sim_peer(&sim.reach, r, s);
			if (p == MRW_TREE_NONE)
				continue;
			const struct rank *other = &run->ranks[p];
			if (other->round < k->round && other->round == other->rounds)
				sim_fault("deadlock: %u of %u ranks never end; rank %u has done %llu of %llu rounds and waits for rank %u, which has done all of its %llu",
					  stuck, run->n, r, (unsigned long long)k->round, (unsigned long long)k->rounds, p, (unsigned long long)other->rounds);
			else if (other->round < k->round)
				sim_fault("deadlock: %u of %u ranks never end; rank %u has done %llu of %llu rounds and waits for rank %u, which has done %llu of %llu and waits, too",
					  stuck, run->n, r, (unsigned long long)k->round, (unsigned long long)k->rounds, p, (unsigned long long)other->round,
					  (unsigned long long)other->rounds);
		}
	}
	for (uint32_t r = 0; r < run->n; r++)
		if (!is_over(run, &run->ranks[r]))
			sim_fault("deadlock: %u of %u ranks never end; rank %u has done %llu of %llu phases and waits for packets that nobody sends", stuck, run->n, r,
				  (unsigned long long)run->ranks[r].round, (unsigned long long)run->ranks[r].rounds);
}

void sim_check_outputs(const struct run *run)
{
	const struct sim_ledger *l = &sim.ledger;
	uint32_t func = sim.args.call.func;
	for (uint32_t r = 0; r < run->n; r++) {
		uint64_t from = sim_scatters(func) ? r * l->of_block : 0;
		uint64_t to = sim_scatters(func) ? from + l->of_block : l->blocks * l->of_block;
		for (uint64_t p = from; p < to; p++)
			if ((func != MRW_FUNC_REDUCE || r == sim.args.call.root) && sim_chunk_bytes(l, p) > 0 && !(l->done[r * l->words + p / 64] >> p % 64 & 1))
				sim_fault("rank %u ends without the result of chunk %llu of block %llu", r, (unsigned long long)(p % l->of_block),
					  (unsigned long long)(p / l->of_block));
		for (uint32_t i = 0; i < l->channels * l->partial_room; i++) {
			uint64_t p = l->partials[(uint64_t)r * l->channels * l->partial_room + i].position;
			if (p > 0)
				sim_fault("rank %u ends with what is no result: chunk %llu of block %llu", r, (unsigned long long)((p - 1) % l->of_block),
					  (unsigned long long)((p - 1) / l->of_block));
		}
	}
}

void sim_call_the_roll(const struct run *run, uint32_t r, uint64_t t)
{
	sim_roll_enter(&sim.roll, r, t);
	for (uint32_t s = 0; t > 0 && !run->call->schedule->packets && s < run->peers; s++) {
		uint32_t p = sim_peer(&sim.reach, r, s);
		if (p != MRW_TREE_NONE)
			sim_roll_hear(&sim.roll, r, t, p, t - 1);
	}
}

void sim_check_roll(const struct run *run)
{
	for (uint32_t r = 0; r < run->n; r++) {
		uint64_t rounds = run->ranks[r].rounds;
		if (rounds > 0 && !run->call->schedule->packets) /* drained: the last counters, too */
			sim_call_the_roll(run, r, rounds++);
		uint32_t p = sim_roll_missing(&sim.roll, r, rounds);
		if (p < run->n)
			sim_fault("rank %u leaves the barrier without knowing that rank %u has entered it", r, p);
	}
}

void sim_tell(const struct run *run)
{
	struct sim_answer *a = run->answer;
	double last = 0, first = 0;
	for (uint32_t r = 0; r < run->n; r++) {
		const struct rank *k = &run->ranks[r];
		double end = k->greeted > k->end ? k->greeted : k->end;
		if (run->nics > 0 && k->rounds > 0 && k->at[(k->rounds - 1) % KEPT] > end && !run->call->schedule->packets) /* drained */
			end = k->at[(k->rounds - 1) % KEPT];
		last = end > last ? end : last;
		first = r == 0 || end < first ? end : first;
	}
	a->us = last / 1000;
	a->first_us = first / 1000;
	memcpy(a->bytes, run->fabric.bytes, sizeof a->bytes);
	memcpy(a->messages, run->fabric.messages, sizeof a->messages);
	for (uint32_t i = 0; i < SIM_CLASSES; i++)
		a->load[i] = sim_fabric_load(&run->fabric, (enum sim_class)i, last);
}
