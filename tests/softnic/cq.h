/* cq.h - completion queues: entries of 64 (or 128) bytes whose last byte, op_own, says whether the entry is there.
 *
 * An ordinary queue's owner bit turns over with each pass. A collapsed one (cc=1) has its first entry overwritten by each
 * completion. All calls hold the engine's lock. */
#ifndef SN_CQ_H
#define SN_CQ_H

#include "wqe.h"

#include <stddef.h>

struct sn_context;
struct sn_qp;

enum sn_cqe_opcode { SN_CQE_REQUEST = 0, SN_CQE_WRITE_IMM = 1, SN_CQE_REQUEST_ERROR = 0xd, SN_CQE_RESPONSE_ERROR = 0xe };

/* A completion before it is bytes. */
struct sn_cqe {
	struct sn_qp *qp;
	uint8_t kind;              /* enum sn_cqe_opcode */
	uint8_t opcode, syndrome, vendor;
	uint16_t counter;          /* of the WQE */
	uint16_t through;          /* send side: WQEs before this index are reported with it */
	uint32_t bytes, imm_be, peer_qpn;
};

enum { SN_HELD_MAX = 1024 };

struct sn_cq {
	struct sn_context *context;
	uint32_t number, entries, entry_bytes;
	bool valid, collapsed, ignore_overrun;
	uint8_t *buffer;
	uint32_t *record;          /* [0] consumer index, [1] arming; big endian */
	uint32_t produced;
	uint64_t user_handle;
	int channel;               /* descriptor to announce at, -1 */
	bool armed;
	uint32_t announced;        /* events, which the program must acknowledge before the queue goes */
	/* Completions that faults hold back: a ring. */
	struct sn_cqe held[SN_HELD_MAX];
	uint64_t due_ns[SN_HELD_MAX];
	uint32_t held_first, held_count;
};

/* NULL: none left. */
struct sn_cq *sn_cq_create(struct sn_context *context, void *buffer, void *record, uint32_t entries, uint32_t entry_bytes);
struct sn_cq *sn_cq_find(const struct sn_context *context, uint32_t number);
int sn_cq_destroy(struct sn_cq *cq);
void sn_cq_release(const struct sn_context *context);
/* Hands in a completion; it is written now, or later if a fault holds it. */
void sn_cq_put(struct sn_cq *cq, const struct sn_cqe *cqe);
/* Writes what is due. Returns whether anything happened. */
bool sn_cq_run(uint64_t now);
/* A queue pair goes away: what is held of it is dropped. */
void sn_cq_forget(const struct sn_qp *qp);
/* The program asks for an event with the next completion. */
void sn_cq_arm(uint32_t number);

#endif
