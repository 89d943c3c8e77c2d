/* doorbell.h - how a NIC learns of new WQEs: a doorbell makes it look at the queue pair's record, which has the index. (The doorbell's
 * own index is the last WQE's or the next one's, as the program likes; only queue pairs without a record go by it.) Lock held. */
#ifndef SN_DOORBELL_H
#define SN_DOORBELL_H

#include "qp.h"

/* A doorbell at offset of page uar: two words as the program wrote them. */
void sn_doorbell(uint32_t uar, uint32_t offset, uint32_t first, uint32_t second);
/* If the queue pair was rung (and not too recently, below a fault): takes its producer index over. Returns whether that moved. */
bool sn_doorbell_look(struct sn_qp *qp, uint64_t now);

#endif
