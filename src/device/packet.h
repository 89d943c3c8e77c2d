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

/* A unit that is not aligned, or not whole: left bytes, zero-filled. A call, to keep the usual case short. */
MRW_DEV_CALL uint64_t mrw_unit_load_slow(const uint8_t *p, uint64_t left)
{
	uint32_t payload[2];
	if (left >= MRW_UNIT_BYTES) {
		mrw_load_unit(p, payload);
	} else {
		struct mrw_vec v = mrw_load_part(p, (uint32_t)left);
		payload[0] = v.w[0];
		payload[1] = v.w[1];
	}
	return payload[0] | (uint64_t)payload[1] << 32;
}

MRW_DEV_CALL void mrw_unit_store_slow(uint8_t *p, uint64_t left, uint64_t both)
{
	uint32_t payload[2] = {(uint32_t)both, (uint32_t)(both >> 32)};
	if (left >= MRW_UNIT_BYTES) {
		mrw_store_unit(p, payload);
	} else {
		struct mrw_vec v = {{payload[0], payload[1], 0, 0}};
		mrw_store_part(p, v, (uint32_t)left);
	}
}

/* Unit number index of a buffer of bytes bytes: 8 bytes, zero-filled at the end. */
MRW_DEV void mrw_unit_load(const uint8_t *buffer, uint64_t index, uint64_t bytes, uint32_t payload[2])
{
	const uint8_t *p = buffer + index * MRW_UNIT_BYTES;
	uint64_t left = bytes - index * MRW_UNIT_BYTES;
	if (left >= MRW_UNIT_BYTES && mrw_is_unit_aligned(p)) {
		mrw_load_aligned_unit(p, payload);
	} else {
		uint64_t both = mrw_unit_load_slow(p, left);
		payload[0] = (uint32_t)both;
		payload[1] = (uint32_t)(both >> 32);
	}
}

MRW_DEV void mrw_unit_store(uint8_t *buffer, uint64_t index, uint64_t bytes, const uint32_t payload[2])
{
	uint8_t *p = buffer + index * MRW_UNIT_BYTES;
	uint64_t left = bytes - index * MRW_UNIT_BYTES;
	if (left >= MRW_UNIT_BYTES && mrw_is_unit_aligned(p))
		mrw_store_aligned_unit(p, payload);
	else
		mrw_unit_store_slow(p, left, payload[0] | (uint64_t)payload[1] << 32);
}

#endif
