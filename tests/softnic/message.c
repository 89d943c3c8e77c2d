#include "message.h"
#include "dma.h"

#include <string.h>

void sn_message_gather(const struct sn_wqe *wqe, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	for (uint32_t i = 0; bytes; i++) {
		const struct sn_segment *segment = &wqe->segment[i];
		uint64_t part;

		if (offset >= segment->bytes) {
			offset -= segment->bytes;
			continue;
		}
		part = segment->bytes - offset < bytes ? segment->bytes - offset : bytes;
		if (segment->inline_at)
			memcpy(to, wqe->bytes + segment->inline_at + offset, part);
		else
			sn_dma_read(to, segment->address + offset, part);
		to += part;
		bytes -= (uint32_t)part;
		offset = 0;
	}
}

void sn_message_scatter(const struct sn_wqe *wqe, uint64_t offset, const uint8_t *from, uint32_t bytes, uint64_t shuffle)
{
	for (uint32_t i = 0; bytes; i++) {
		const struct sn_segment *segment = &wqe->segment[i];
		uint64_t part;

		if (offset >= segment->bytes) {
			offset -= segment->bytes;
			continue;
		}
		part = segment->bytes - offset < bytes ? segment->bytes - offset : bytes;
		sn_dma_write(segment->address + offset, from, part, SN_DMA_ORDERED, shuffle);
		from += part;
		bytes -= (uint32_t)part;
		offset = 0;
	}
}

uint64_t sn_message_digest(const uint8_t *bytes, uint32_t count, uint64_t digest)
{
	uint64_t word;

	for (; count >= sizeof(word); bytes += sizeof(word), count -= (uint32_t)sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		digest = (digest ^ word) * 0xff51afd7ed558ccdu;
		digest ^= digest >> 29;
	}
	for (; count; count--)
		digest = (digest ^ *bytes++) * 0x100000001b3u;
	return digest;
}
