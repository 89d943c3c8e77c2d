#include "stats.h"
#include "wqe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int sn_stats_line(const struct sn_fabric *fabric, const struct sn_qp_stats *stats, char *line, size_t bytes)
{
	const struct sn_card *card = &fabric->card[stats->card % SN_CARDS_MAX], *peer = &fabric->card[stats->peer_card % SN_CARDS_MAX];
	uint64_t wqes = 0, total = 0;
	int at;

#define PUT(...) (at += snprintf(line + at, at < (int)bytes ? bytes - (size_t)at : 0, __VA_ARGS__))
	for (uint32_t i = 0; i < SN_OPCODES; i++) {
		wqes += stats->wqes[i];
		total += stats->bytes[i];
	}
	at = snprintf(line, bytes, "{\"process\": %u, \"rank\": %d, \"host\": \"%s\", \"nic\": %u, \"qp\": %u", stats->process, (int)stats->rank,
		      fabric->host_id[card->host], card->index, stats->qpn);
	if (stats->peer_card < SN_CARDS_MAX)
		PUT(", \"peer_host\": \"%s\", \"peer_nic\": %u, \"peer_qp\": %u", fabric->host_id[peer->host], peer->index, stats->peer_qpn);
	PUT(", \"wqes\": %llu, \"bytes\": %llu, \"doorbells\": %llu", (unsigned long long)wqes, (unsigned long long)total,
	    (unsigned long long)stats->doorbells);
	PUT(", \"completions\": %llu, \"error_completions\": %llu, \"resends\": %llu, \"by_opcode\": {", (unsigned long long)stats->completions,
	    (unsigned long long)stats->error_completions, (unsigned long long)stats->resends);
	wqes = 0;
	for (uint32_t i = 0; i < SN_OPCODES; i++)
		if (stats->wqes[i])
			PUT("%s\"%s\": {\"wqes\": %llu, \"bytes\": %llu}", wqes++ ? ", " : "", sn_opcode_name((uint8_t)i),
			    (unsigned long long)stats->wqes[i], (unsigned long long)stats->bytes[i]);
	PUT("}}\n");
#undef PUT
	return at;
}

void sn_stats_write(struct sn_fabric *fabric, uint32_t process, const char *path)
{
	uint32_t count = fabric->stats_used < SN_QP_STATS_MAX ? fabric->stats_used : SN_QP_STATS_MAX;
	int out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	char line[2048];

	if (out < 0) {
		fprintf(stderr, "softnic: cannot open the statistics %s: %s\n", path, strerror(errno));
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct sn_qp_stats *stats = &fabric->stats[i];

		if (stats->used != 1 || (process != SN_PROCESSES_MAX && stats->process != process))
			continue;
		stats->used = 2;
		if (write(out, line, (size_t)sn_stats_line(fabric, stats, line, sizeof(line))) < 0)
			break;
	}
	close(out);
}
