/* responder.h - the answering half of a queue pair: checks keys in its own tables and moves the bytes in its own memory.
 * Lock held. */
#ifndef SN_RESPONDER_H
#define SN_RESPONDER_H

#include "qp.h"

/* Takes a request from its link: kept in order to be executed, or answered as lost. */
void sn_responder_accept(const struct sn_packet *packet, uint64_t now);
/* Executes what has arrived. Returns whether anything happened. */
bool sn_responder_run(struct sn_qp *qp, uint64_t now);
void sn_responder_reset(struct sn_qp *qp);

#endif
