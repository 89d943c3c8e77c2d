/* message.h - the local bytes of a message: inline in its WQE, or where its data segments say (checked before: program addresses). */
#ifndef SN_MESSAGE_H
#define SN_MESSAGE_H

#include "wqe.h"

/* Copies bytes from an offset of the source. */
void sn_message_gather(const struct sn_wqe *wqe, uint64_t offset, uint8_t *to, uint32_t bytes);
/* Copies bytes to an offset of the destination (of a READ or an atomic). shuffle: as sn_dma_write. */
void sn_message_scatter(const struct sn_wqe *wqe, uint64_t offset, const uint8_t *from, uint32_t bytes, uint64_t shuffle);
/* Goes on with a digest over bytes of the model's own. */
uint64_t sn_message_digest(const uint8_t *bytes, uint32_t count, uint64_t digest);

#endif
