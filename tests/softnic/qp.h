/* qp.h - a reliable-connected queue pair: its rings, its connection, and what is under way on it.
 *
 * requester.c sends, responder.c answers; this file has their life and state. All calls hold the engine's lock. */
#ifndef SN_QP_H
#define SN_QP_H

#include "cq.h"
#include "fabric.h"
#include "wqe.h"

enum sn_qp_state { SN_QP_RESET, SN_QP_INIT, SN_QP_RTR, SN_QP_RTS, SN_QP_SQD, SN_QP_SQE, SN_QP_ERROR };

enum {
	SN_QP_FIRST = 0x100,       /* numbers below this are special on a real NIC */
	SN_QPS_MAX = 4096,         /* a process */
	SN_QP_PROCESS_SHIFT = 16,  /* a queue pair's number begins with its process */
	SN_WINDOW = 16,            /* WQEs under way on a queue pair */
	SN_IN_FLIGHT = 16,         /* packets under way on a queue pair */
	SN_NO_CARD = -1,
};

/* A WQE under way. */
struct sn_request {
	struct sn_wqe wqe;
	enum sn_syndrome syndrome; /* what it will complete with */
	uint8_t vendor;
	uint32_t first_psn, packets, sent, acked;
	uint64_t landed;           /* bytes of a READ */
	uint64_t digest;           /* of the source, as sent */
	uint32_t digested;         /* packets in it */
};

/* A packet that has arrived and waits to be executed. */
struct sn_arrival {
	struct sn_arrival *next;
	uint64_t ns;
	struct sn_packet_head head;
	uint8_t payload[];
};

struct sn_qp {
	struct sn_context *context;
	struct sn_qp_stats *stats;
	uint32_t number, user_index, pd, uar, ordinal; /* ordinal: how many its NIC had before */
	bool valid, recordless;
	enum sn_qp_state state;
	struct sn_cq *send_cq, *receive_cq;
	uint8_t *sq, *shadow;      /* shadow: what the NIC saw when it looked at a WQE */
	uint32_t sq_blocks;
	uint32_t rq_count;
	uint32_t *record;          /* [0] receive, [1] send; big endian */

	/* Connection. */
	uint32_t peer_qpn, access, timeout, retries, rnr_retries, min_rnr_timer, mtu;
	int peer_card;

	/* Requester. Indices are of blocks, modulo 2^16. */
	uint16_t producer, looked, fetched, reported;
	uint64_t executed;         /* WQEs ever looked at */
	bool rung;
	uint64_t look_ns;
	struct sn_request *window;
	uint32_t window_first, window_count;
	uint32_t next_psn, in_flight, round;
	uint32_t retries_left, rnr_left;
	uint64_t resume_ns, silent_ns;
	bool stopped;              /* a WQE failed: look at no more */

	/* Responder. */
	uint32_t expected_psn;
	struct sn_arrival *arrivals;
	uint64_t hold_ns;          /* a fault: until then what was passed stays where it is */
	uint64_t read_offset;      /* bytes sent of the READ that is being answered */
	uint16_t received;         /* receive WQEs used */
};

struct sn_qp_shape {
	uint32_t pd, uar, user_index, sq_blocks, rq_count;
	struct sn_cq *send_cq, *receive_cq;
	void *sq, *record;
	bool recordless;
};

/* NULL: none left. */
struct sn_qp *sn_qp_create(struct sn_context *context, const struct sn_qp_shape *shape);
void sn_qp_destroy(struct sn_qp *qp);
void sn_qp_release(const struct sn_context *context);
struct sn_qp *sn_qp_find(uint32_t number);
/* The n-th queue pair that exists, for the engine's round; NULL behind the last. */
struct sn_qp *sn_qp_nth(uint32_t n);
/* Moves to a state if that is allowed from here. 0 or EINVAL. */
int sn_qp_move(struct sn_qp *qp, enum sn_qp_state to);
/* Something failed: error state, and completions of everything that is posted are flushed. */
void sn_qp_fail(struct sn_qp *qp);
/* The completion of everything before block index through is about to be shown: checks the slots, and poisons them if asked to. */
void sn_qp_report(struct sn_qp *qp, uint16_t through);
/* Identity for dice: same in every run. */
uint64_t sn_qp_identity(const struct sn_qp *qp);
const char *sn_qp_state_name(enum sn_qp_state state);

#endif
