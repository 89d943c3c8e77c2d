/* packet.h - small messages: 8 bytes of payload with their flags in one 16-byte store. */
#ifndef MRW_PACKET_H
#define MRW_PACKET_H

#include "copy.h"
#include "flag.h"

/* Partner: mrw_wait_packet(). The flag travels with the data: no order needed. */
MRW_DEV void mrw_packet_send(struct mrw_packet *p, uint32_t seq, const uint32_t payload[2])
{
	struct mrw_packet v;
	v.unit[0] = payload[0] | (uint64_t)seq << 32;
	v.unit[1] = payload[1] | (uint64_t)seq << 32;
	mrw_store_packet(p, v);
}

/* Unit number index of a buffer of bytes bytes: 8 bytes, zero-filled at the end. */
MRW_DEV void mrw_unit_load(const uint8_t *buffer, uint64_t index, uint64_t bytes, uint32_t payload[2])
{
	const uint8_t *p = buffer + index * MRW_UNIT_BYTES;
	uint64_t left = bytes - index * MRW_UNIT_BYTES;
	if (left >= MRW_UNIT_BYTES) {
		mrw_load_unit(p, payload);
	} else {
		struct mrw_vec v = mrw_load_part(p, (uint32_t)left);
		payload[0] = v.w[0];
		payload[1] = v.w[1];
	}
}

MRW_DEV void mrw_unit_store(uint8_t *buffer, uint64_t index, uint64_t bytes, const uint32_t payload[2])
{
	uint8_t *p = buffer + index * MRW_UNIT_BYTES;
	uint64_t left = bytes - index * MRW_UNIT_BYTES;
	if (left >= MRW_UNIT_BYTES) {
		mrw_store_unit(p, payload);
	} else {
		struct mrw_vec v = {{payload[0], payload[1], 0, 0}};
		mrw_store_part(p, v, (uint32_t)left);
	}
}

#endif
