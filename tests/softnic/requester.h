/* requester.h - the sending half of a queue pair: WQEs, packets out, answers in, completions. Lock held. */
#ifndef SN_REQUESTER_H
#define SN_REQUESTER_H

#include "qp.h"

/* Goes on as far as it can without waiting. Returns whether anything happened. */
bool sn_requester_run(struct sn_qp *qp, uint64_t now);
/* An answer from the peer. */
void sn_requester_answer(const struct sn_packet *packet, uint64_t now);
/* Completes everything posted as flushed. */
void sn_requester_flush(struct sn_qp *qp);
/* Forgets what is under way. */
void sn_requester_reset(struct sn_qp *qp);

#endif
