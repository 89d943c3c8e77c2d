#include "wqe.h"
#include "check.h"
#include "qp.h"

#include <endian.h>
#include <string.h>

enum { SEGMENT = 16, LIST_END_LKEY = 0x100 };
#define INLINE_FLAG 0x80000000u

static uint32_t word_at(const struct sn_wqe *wqe, uint32_t offset)
{
	uint32_t word;

	memcpy(&word, wqe->bytes + offset, sizeof(word));
	return be32toh(word);
}

static uint64_t long_at(const struct sn_wqe *wqe, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, wqe->bytes + offset, sizeof(word));
	return be64toh(word);
}

static bool is_atomic(uint8_t opcode)
{
	return opcode == SN_OP_CS || opcode == SN_OP_FA || opcode == SN_OP_MASKED_CS || opcode == SN_OP_MASKED_FA;
}

#define REFUSE(check, syndrome, ...) \
	do { \
		sn_check_failed(check, qp, wqe->bytes, shown, __VA_ARGS__); \
		return syndrome; \
	} while (0)

/* Operands at offset; returns the offset behind them, 0 if opmod is not one of this opcode. */
static uint32_t read_operands(struct sn_wqe *wqe, uint32_t at)
{
	uint64_t *o = wqe->operand;

	o[2] = o[3] = ~0ull;
	if (wqe->opcode == SN_OP_CS || wqe->opcode == SN_OP_FA) {
		if (wqe->opmod)
			return 0;
		wqe->operand_bytes = 8;
		o[0] = long_at(wqe, at);
		o[1] = wqe->opcode == SN_OP_CS ? long_at(wqe, at + 8) : 0;
		return at + SEGMENT;
	}
	if (wqe->opmod == 8) {
		wqe->operand_bytes = 4;
		o[0] = word_at(wqe, at);
		o[1] = word_at(wqe, at + 4);
		if (wqe->opcode == SN_OP_MASKED_CS) {
			o[2] = word_at(wqe, at + 8);
			o[3] = word_at(wqe, at + 12);
		}
		return at + SEGMENT;
	}
	if (wqe->opmod != 9)
		return 0;
	wqe->operand_bytes = 8;
	o[0] = long_at(wqe, at);
	o[1] = long_at(wqe, at + 8);
	if (wqe->opcode != SN_OP_MASKED_CS)
		return at + SEGMENT;
	o[2] = long_at(wqe, at + SEGMENT);
	o[3] = long_at(wqe, at + SEGMENT + 8);
	return at + 2 * SEGMENT;
}

/* Data segments from offset to the WQE's end. */
static enum sn_syndrome read_list(struct sn_wqe *wqe, const struct sn_qp *qp, uint32_t at, uint32_t end, uint32_t shown)
{
	bool ended = false;

	while (at < end) {
		struct sn_segment *segment = &wqe->segment[wqe->segments];
		uint32_t count = word_at(wqe, at);

		if (count & INLINE_FLAG) {
			uint32_t bytes = count & 0x3ff;

			if (wqe->opcode != SN_OP_WRITE && wqe->opcode != SN_OP_WRITE_IMM)
				REFUSE(SN_CHECK_WQE_OPCODE, SN_LOCAL_OPERATION, "inline data in a %s", sn_opcode_name(wqe->opcode));
			if (count & ~(INLINE_FLAG | 0x3ffu))
				REFUSE(SN_CHECK_WQE_RESERVED, SN_LOCAL_OPERATION, "inline segment says 0x%x bytes", count & ~INLINE_FLAG);
			if (bytes > end - at - 4)
				REFUSE(SN_CHECK_WQE_SIZE, SN_LOCAL_OPERATION, "%u inline bytes at offset %u reach past ds %u", bytes, at, wqe->size);
			*segment = (struct sn_segment){.bytes = bytes, .inline_at = at + 4};
			at += (4 + bytes + SEGMENT - 1) & ~(uint32_t)(SEGMENT - 1);
		} else {
			/* 0 stands for 2 GiB, except with the key that ends a list. */
			*segment = (struct sn_segment){.bytes = count ? count : 1ull << 31, .lkey = word_at(wqe, at + 4), .address = long_at(wqe, at + 8)};
			at += SEGMENT;
			if (segment->lkey == LIST_END_LKEY) {
				ended = true;
				continue;
			}
			if (ended)
				REFUSE(SN_CHECK_WQE_SIZE, SN_LOCAL_OPERATION, "a data segment behind the one that ends the list");
		}
		wqe->total += segment->bytes;
		wqe->segments++;
	}
	if (at != end)
		REFUSE(SN_CHECK_WQE_SIZE, SN_LOCAL_OPERATION, "segments end at byte %u, ds says %u", at, end);
	if (wqe->total > 1u << 30)
		REFUSE(SN_CHECK_WQE_SIZE, SN_LOCAL_LENGTH, "a message of %llu bytes, a port takes 2^30", (unsigned long long)wqe->total);
	return SN_OK;
}

enum sn_syndrome sn_wqe_read(struct sn_wqe *wqe, const struct sn_qp *qp, uint16_t index, uint32_t available)
{
	uint32_t head = word_at(wqe, 0), place = word_at(wqe, 4), end, at = SEGMENT, shown;
	uint8_t flags = wqe->bytes[11];
	bool remote;

	wqe->opcode = head & 0xff;
	wqe->opmod = (uint8_t)(head >> 24);
	wqe->index = (uint16_t)(head >> 8);
	wqe->size = place & 0x3f;
	wqe->blocks = wqe->size ? (wqe->size + 3) / 4 : 1;
	wqe->signalled = (flags >> 2 & 3) == 2;
	wqe->fenced = flags >> 5 & 7;
	memcpy(&wqe->imm_be, wqe->bytes + 12, sizeof(wqe->imm_be));
	wqe->rkey = wqe->operand_bytes = wqe->segments = 0;
	wqe->remote = wqe->total = 0;
	end = wqe->size * SEGMENT;
	shown = end && end <= available ? end : SN_BLOCK;

	if (wqe->index != index) {
		wqe->index = index;
		wqe->blocks = 1;
		REFUSE(SN_CHECK_WQE_INDEX, SN_LOCAL_OPERATION, "the WQE carries index %u, its place has %u", (head >> 8) & 0xffff, index);
	}
	if (place >> 8 != qp->number)
		REFUSE(SN_CHECK_WQE_QPN, SN_LOCAL_OPERATION, "wqe %u carries queue pair 0x%x", index, place >> 8);
	if (wqe->size == 0 || end > available) {
		wqe->blocks = 1;
		REFUSE(SN_CHECK_WQE_SIZE, SN_LOCAL_OPERATION, "wqe %u: ds %u, %u segments lie before the producer index", index, wqe->size,
		       available / SEGMENT);
	}
	if (place & 0xc0 || flags & 0x11 || wqe->bytes[9] || wqe->bytes[10])
		REFUSE(SN_CHECK_WQE_RESERVED, SN_LOCAL_OPERATION, "wqe %u: reserved bits in the control segment", index);
	if ((flags >> 2 & 3) == 1 || (flags >> 2 & 3) == 3)
		REFUSE(SN_CHECK_WQE_RESERVED, SN_LOCAL_OPERATION, "wqe %u: completion mode %u", index, flags >> 2 & 3);
	remote = wqe->opcode == SN_OP_WRITE || wqe->opcode == SN_OP_WRITE_IMM || wqe->opcode == SN_OP_READ || is_atomic(wqe->opcode);
	if (!remote && wqe->opcode != SN_OP_NOP && wqe->opcode != SN_OP_DUMP)
		REFUSE(SN_CHECK_WQE_OPCODE, SN_LOCAL_OPERATION, "wqe %u: opcode 0x%02x", index, wqe->opcode);
	if (wqe->opmod && wqe->opcode != SN_OP_MASKED_CS && wqe->opcode != SN_OP_MASKED_FA)
		REFUSE(SN_CHECK_WQE_OPCODE, SN_LOCAL_OPERATION, "wqe %u: opcode modifier %u with %s", index, wqe->opmod,
		       sn_opcode_name(wqe->opcode));
	if (wqe->opcode == SN_OP_NOP) {
		/* Its length is free: it fills the gap at a ring's end. */
		return SN_OK;
	}
	if (remote) {
		if (end < 2 * SEGMENT)
			REFUSE(SN_CHECK_WQE_SIZE, SN_LOCAL_OPERATION, "wqe %u: %s without remote address", index, sn_opcode_name(wqe->opcode));
		wqe->remote = long_at(wqe, at);
		wqe->rkey = word_at(wqe, at + 8);
		if (word_at(wqe, at + 12))
			REFUSE(SN_CHECK_WQE_RESERVED, SN_LOCAL_OPERATION, "wqe %u: reserved word of the remote address segment", index);
		at += SEGMENT;
	}
	if (is_atomic(wqe->opcode)) {
		at = read_operands(wqe, at);
		if (at == 0)
			REFUSE(SN_CHECK_WQE_OPCODE, SN_LOCAL_OPERATION, "wqe %u: opcode modifier %u with %s", index, wqe->opmod,
			       sn_opcode_name(wqe->opcode));
		if (at + SEGMENT != end)
			REFUSE(SN_CHECK_WQE_SIZE, SN_LOCAL_OPERATION, "wqe %u: %s with modifier %u takes ds %u, not %u", index,
			       sn_opcode_name(wqe->opcode), wqe->opmod, at / SEGMENT + 1, wqe->size);
	}
	if (read_list(wqe, qp, at, end, shown))
		return SN_LOCAL_OPERATION;
	if (is_atomic(wqe->opcode) && wqe->total != wqe->operand_bytes)
		REFUSE(SN_CHECK_WQE_SIZE, SN_LOCAL_LENGTH, "wqe %u: %u bytes for the result of an atomic of %u", index, (uint32_t)wqe->total,
		       wqe->operand_bytes);
	return SN_OK;
}
