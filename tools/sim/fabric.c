#include "fabric.h"

#include <stdlib.h>
#include <string.h>

/* Uplinks of a level that are queues of their own. */
static size_t uplinks(const struct sim_fabric *f, uint32_t level)
{
	return (size_t)f->groups[level] * (level == 0 ? f->rails : 1);
}

static struct sim_pipe *pipes(size_t count)
{
	return calloc(count ? count : 1, sizeof(struct sim_pipe));
}

static double per_byte(double gb_s)
{
	return gb_s > 0 ? 1 / gb_s : 0; /* GB/s are bytes a ns */
}

static uint32_t *numbers(size_t count)
{
	return calloc(count ? count : 1, sizeof(uint32_t));
}

/* Who is where, and by which ports it sends: GPUs take their host's NICs by number, as many each; or share them evenly. */
static bool place(struct sim_fabric *f, const struct sim_cluster *c)
{
	uint32_t rank = 0, port = 0;
	for (uint32_t h = 0; h < f->hosts; h++)
		f->ports += sim_cluster_nics(c, h);
	f->host = numbers(f->ranks);
	f->port = numbers((size_t)f->ranks * f->nics_of_rank);
	f->number = numbers(f->ports);
	if (!f->host || !f->port || !f->number)
		return false;
	for (uint32_t h = 0; h < f->hosts; h++) {
		uint32_t gpus = sim_cluster_gpus(c, h), nics = sim_cluster_nics(c, h);
		for (uint32_t l = 0; l < gpus; l++, rank++) {
			f->host[rank] = h;
			for (uint32_t i = 0; i < f->nics_of_rank; i++)
				f->port[rank * f->nics_of_rank + i] = port + (nics >= gpus ? l * (nics / gpus) + i : l * nics / gpus);
		}
		for (uint32_t k = 0; k < nics; k++)
			f->number[port++] = k;
	}
	return true;
}

bool sim_fabric_open(struct sim_fabric *f, const struct sim_cluster *c)
{
	uint32_t ranks = sim_cluster_ranks(c), nics = (uint32_t)c->nics;
	memset(f, 0, sizeof *f);
	f->cluster = c;
	f->hosts = (uint32_t)c->hosts;
	f->ranks = ranks;
	f->nics_of_rank = sim_cluster_nics_of_rank(c);
	f->rails = c->rails != 0 && nics > 0 ? nics : 1;
	f->nic_ns = per_byte(c->nic_gb_s);
	f->near_ns = per_byte(c->nvlink_gb_s);
	f->pcie_ns = per_byte(c->pcie_gb_s);
	f->request_ns = c->request_us * 1000;
	f->latency_ns = c->nic_us * 1000;
	f->near_latency_ns = c->nvlink_us * 1000;
	bool ok = place(f, c);
	f->near_out = pipes(ranks);
	f->near_in = pipes(ranks);
	f->pcie_out = pipes(ranks);
	f->pcie_in = pipes(ranks);
	f->nic_out = pipes(f->ports);
	f->nic_in = pipes(f->ports);
	ok = ok && f->near_out && f->near_in && f->pcie_out && f->pcie_in && f->nic_out && f->nic_in;
	f->nlevels = c->nlevels;
	for (uint32_t k = 0; k < f->nlevels; k++) {
		f->group_hosts[k] = (uint32_t)c->level[k].hosts;
		f->groups[k] = (f->hosts + f->group_hosts[k] - 1) / f->group_hosts[k];
		/* All uplinks of a group's switches as one: what is sent spreads evenly. As many as for hosts that are all like the rest. */
		f->level_ns[k] = f->nic_ns * c->level[k].taper / (c->level[k].hosts * nics / (k == 0 ? f->rails : 1));
		f->level_latency_ns[k] = c->level[k].us * 1000;
		f->up[k] = pipes(uplinks(f, k));
		f->down[k] = pipes(uplinks(f, k));
		ok = ok && f->up[k] && f->down[k];
	}
	return ok;
}

void sim_fabric_close(struct sim_fabric *f)
{
	free(f->host);
	free(f->port);
	free(f->number);
	free(f->near_out);
	free(f->near_in);
	free(f->pcie_out);
	free(f->pcie_in);
	free(f->nic_out);
	free(f->nic_in);
	for (uint32_t k = 0; k < f->nlevels; k++) {
		free(f->up[k]);
		free(f->down[k]);
	}
	memset(f, 0, sizeof *f);
}

void sim_fabric_clear(struct sim_fabric *f)
{
	size_t ranks = f->ranks, ports = f->ports;
	memset(f->near_out, 0, ranks * sizeof(struct sim_pipe));
	memset(f->near_in, 0, ranks * sizeof(struct sim_pipe));
	memset(f->pcie_out, 0, ranks * sizeof(struct sim_pipe));
	memset(f->pcie_in, 0, ranks * sizeof(struct sim_pipe));
	memset(f->nic_out, 0, ports * sizeof(struct sim_pipe));
	memset(f->nic_in, 0, ports * sizeof(struct sim_pipe));
	for (uint32_t k = 0; k < f->nlevels; k++) {
		memset(f->up[k], 0, uplinks(f, k) * sizeof(struct sim_pipe));
		memset(f->down[k], 0, uplinks(f, k) * sizeof(struct sim_pipe));
	}
	memset(f->bytes, 0, sizeof f->bytes);
	memset(f->messages, 0, sizeof f->messages);
}

/* A message whose head is there at *head takes the pipe for ns; *tail: when its last byte is through, if nothing before held it longer. */
static inline void pass(struct sim_pipe *p, double ns, double *head, double *tail)
{
	double from = *head > p->free ? *head : p->free;
	p->free = from + ns;
	p->busy += ns;
	*head = from;
	*tail = p->free > *tail ? p->free : *tail;
}

static inline void hop(double *head, double *tail, double ns)
{
	*head += ns;
	*tail += ns;
}

double sim_fabric_send(struct sim_fabric *f, uint32_t src, uint32_t dst, uint32_t i, uint64_t bytes, uint32_t requests, double at_ns)
{
	uint32_t from = f->host[src], to = f->host[dst], out = f->port[src * f->nics_of_rank + i], in = f->port[dst * f->nics_of_rank + i];
	uint32_t up = f->rails > 1 ? f->number[out] : 0, down = f->rails > 1 ? f->number[in] : 0, k;
	double head = at_ns, tail = at_ns, wire = (double)bytes * f->nic_ns, port = (double)requests * f->request_ns;
	port = wire > port ? wire : port;
	f->bytes[SIM_NIC] += bytes;
	f->messages[SIM_NIC] += requests;
	if (f->pcie_ns > 0) {
		f->bytes[SIM_PCIE] += bytes;
		f->messages[SIM_PCIE] += requests;
		pass(&f->pcie_out[src], (double)bytes * f->pcie_ns, &head, &tail);
	}
	pass(&f->nic_out[out], port, &head, &tail);
	for (k = 0; k < f->nlevels && ((k == 0 && up != down) || from / f->group_hosts[k] != to / f->group_hosts[k]); k++) {
		f->bytes[SIM_UP + k] += bytes;
		f->messages[SIM_UP + k] += requests;
		hop(&head, &tail, f->level_latency_ns[k]);
		pass(k == 0 ? &f->up[0][from / f->group_hosts[0] * f->rails + up] : &f->up[k][from / f->group_hosts[k]], (double)bytes * f->level_ns[k], &head, &tail);
	}
	while (k-- > 0) {
		hop(&head, &tail, f->level_latency_ns[k]);
		pass(k == 0 ? &f->down[0][to / f->group_hosts[0] * f->rails + down] : &f->down[k][to / f->group_hosts[k]], (double)bytes * f->level_ns[k], &head, &tail);
	}
	hop(&head, &tail, f->latency_ns);
	pass(&f->nic_in[in], port, &head, &tail);
	if (f->pcie_ns > 0)
		pass(&f->pcie_in[dst], (double)bytes * f->pcie_ns, &head, &tail);
	return tail;
}

double sim_fabric_ready(const struct sim_fabric *f, uint32_t src, uint32_t i)
{
	double port = f->nic_out[f->port[src * f->nics_of_rank + i]].free;
	return f->pcie_ns > 0 && f->pcie_out[src].free > port ? f->pcie_out[src].free : port;
}

double sim_fabric_store(struct sim_fabric *f, uint32_t src, uint32_t dst, uint64_t bytes, double at_ns, double *there)
{
	double head = at_ns, tail = at_ns, ns = (double)bytes * f->near_ns;
	f->bytes[SIM_NEAR] += bytes;
	f->messages[SIM_NEAR]++;
	pass(&f->near_out[src], ns, &head, &tail);
	double left = tail;
	pass(&f->near_in[dst], ns, &head, &tail);
	*there = tail + f->near_latency_ns;
	return left;
}

static double busiest(const struct sim_pipe *p, size_t count)
{
	double most = 0;
	for (size_t i = 0; i < count; i++)
		most = p[i].busy > most ? p[i].busy : most;
	return most;
}

double sim_fabric_load(const struct sim_fabric *f, enum sim_class class, double span_ns)
{
	size_t ranks = f->ranks, ports = f->ports;
	const struct sim_pipe *out = f->near_out, *in = f->near_in;
	size_t count = ranks;
	if (class == SIM_PCIE) {
		out = f->pcie_out;
		in = f->pcie_in;
	} else if (class == SIM_NIC) {
		out = f->nic_out;
		in = f->nic_in;
		count = ports;
	} else if (class >= SIM_UP) {
		if (class - SIM_UP >= f->nlevels)
			return 0;
		out = f->up[class - SIM_UP];
		in = f->down[class - SIM_UP];
		count = uplinks(f, class - SIM_UP);
	}
	double a = busiest(out, count), b = busiest(in, count);
	return span_ns > 0 ? (a > b ? a : b) / span_ns : 0;
}

const char *sim_fabric_class(const struct sim_fabric *f, enum sim_class class)
{
	static const char *const names[] = {"nvlink", "pcie", "nic"};
	return class < SIM_UP ? names[class] : class - SIM_UP < f->nlevels ? f->cluster->level[class - SIM_UP].name : "";
}
