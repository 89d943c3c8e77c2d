/* wqe.h - a send WQE, read as strictly as a NIC should and none does.
 *
 * Blocks of 64 bytes (WQEBB), segments of 16; all fields big endian. Layout and sizes: rdma-core's mlx5dv.h. */
#ifndef SN_WQE_H
#define SN_WQE_H

#include <stdbool.h>
#include <stdint.h>

enum { SN_BLOCK = 64, SN_WQE_BYTES_MAX = 1024, SN_SEGMENTS_MAX = 61 };

enum sn_opcode {
	SN_OP_NOP = 0x00,
	SN_OP_WRITE = 0x08,
	SN_OP_WRITE_IMM = 0x09,
	SN_OP_READ = 0x10,
	SN_OP_CS = 0x11,
	SN_OP_FA = 0x12,
	SN_OP_MASKED_CS = 0x14,
	SN_OP_MASKED_FA = 0x15,
	SN_OP_DUMP = 0x23,
};

/* Error syndromes of completions. */
enum sn_syndrome {
	SN_OK = 0,
	SN_LOCAL_LENGTH = 0x01,
	SN_LOCAL_OPERATION = 0x02,
	SN_LOCAL_PROTECTION = 0x04,
	SN_FLUSHED = 0x05,
	SN_REMOTE_INVALID = 0x12,
	SN_REMOTE_ACCESS = 0x13,
	SN_REMOTE_OPERATION = 0x14,
	SN_RETRIES = 0x15,
	SN_RNR_RETRIES = 0x16,
};

struct sn_segment {
	uint64_t address;
	uint32_t lkey;
	uint64_t bytes;
	uint32_t inline_at;        /* offset in the WQE's bytes, 0: not inline */
};

struct sn_wqe {
	uint8_t bytes[SN_WQE_BYTES_MAX];
	uint16_t index;
	uint8_t opcode, opmod;
	uint32_t blocks, size;     /* in blocks of 64, in segments of 16 bytes */
	bool signalled, fenced;
	uint32_t imm_be, rkey;
	uint64_t remote;
	uint64_t operand[4];       /* as struct sn_dma_atomic */
	uint32_t operand_bytes;    /* 0: no atomic */
	uint32_t segments;
	struct sn_segment segment[SN_SEGMENTS_MAX];
	uint64_t total;
};

struct sn_qp;

/* Reads wqe->bytes (available of them are the ring's, the rest is not to be looked at), which were found where index belongs.
 * Returns SN_OK or the syndrome that the WQE completes with, having reported the check that failed; blocks is then what to skip. */
enum sn_syndrome sn_wqe_read(struct sn_wqe *wqe, const struct sn_qp *qp, uint16_t index, uint32_t available);
const char *sn_opcode_name(uint8_t opcode);

#endif
