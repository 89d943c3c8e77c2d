/* network_view.h - a rank's queue pairs as its kernels see them.
 *
 * Host target: kernels see what the host sees; nothing is made. A GPU: the counters of a queue, which its blocks share, are in the GPU's
 * memory; rings, records and completions are there too or in the host's pages, where the NIC has them (nic.h), and the doorbell is the NIC's
 * register. Whoever closes a queue pair fetches its counters first. */
#ifndef MRW_NETWORK_VIEW_H
#define MRW_NETWORK_VIEW_H

#include "device/far.h"
#include "device/runtime.h"
#include "proxyless/nic.h"

enum { MRW_VIEW_PAGES = 5 * MRW_MAX_RANKS * MRW_MAX_NICS };

struct mrw_view {
	struct mrw_device *device;
	uint8_t *words;                    /* struct mrw_far, then the queues; NULL: the host target */
	struct mrw_arena own;              /* where words are, if the view was given no room */
	struct mrw_far *far;               /* what kernels are given */
	void *pages[MRW_VIEW_PAGES];       /* mapped */
	uint32_t npages;
};

/* Memory of kernels that a view of so many queues takes. */
uint64_t mrw_view_bytes(uint32_t count);
/* far and the count queues, to which it points, are the host's, filled and connected; links[k], of queue k, may be NULL. far, the queues
 * where they are, and room must outlive the view. room: mrw_view_bytes(count) of zeroed memory of the device, aligned to 64 bytes; NULL: the view
 * makes its own. A view that failed half way is to be freed. */
enum marrow_status mrw_view_new(struct mrw_view *view, struct mrw_device *device, struct mrw_far *far, const struct mrw_queue *queues,
				struct mrw_link *const *links, uint32_t count, uint8_t *room);
/* Brings the host's counters of queue number number up to what kernels have done, with no kernel in flight. */
enum marrow_status mrw_view_fetch(const struct mrw_view *view, uint32_t number, struct mrw_queue *queue);
/* Zeroed is fine. Before the links go. */
void mrw_view_free(struct mrw_view *view);

#endif
