/* rig.h - queue pairs with hand-written WQEs, as device code writes them, for the tests of the model. A failure ends the program. */
#ifndef RIG_H
#define RIG_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { RIG_BLOCK = 64, RIG_EXIT_SKIPPED = 77 };

/* How a queue is made. */
enum rig_kind {
	RIG_DEVX,            /* own rings, collapsed completion queue */
	RIG_DEVX_ORDINARY,   /* own rings, ordinary completion queue */
	RIG_DEVX_RECORDLESS, /* doorbells carry the index */
	RIG_VERBS,           /* libmlx5's rings by mlx5dv_init_obj */
};

struct rig_port {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t pdn;
	union ibv_gid gid;
	char host[64];
	uint32_t nic;
};

struct rig_queue {
	struct rig_port *port;
	enum rig_kind kind;
	uint8_t *sq, *cq;
	uint32_t *record, *cq_record;
	uint64_t *bell;
	uint32_t qpn, blocks, entries;
	uint64_t next;       /* block index, runs free */
	uint16_t last;       /* index of the last WQE */
	uint64_t consumed;   /* of an ordinary completion queue */
	uint32_t receives;
	struct mlx5dv_devx_obj *qp_object, *cq_object;
	struct mlx5dv_devx_umem *umem[3];
	struct mlx5dv_devx_uar *uar[2];
	struct ibv_qp *qp;
	struct ibv_cq *verbs_cq;
	bool lent;           /* the rings' memory is somebody else's */
};

/* Everything another process needs to connect. */
struct rig_address {
	uint32_t qpn, rkey;
	uint64_t memory;
	union ibv_gid gid;
};

#define RIG_CHECK(condition) rig_check(condition, #condition, __FILE__, __LINE__)
void rig_check(bool held, const char *text, const char *file, int line);
/* Opens the device of that number; 77 and out if there is none. */
void rig_open(struct rig_port *port, uint32_t device);
void rig_close(struct rig_port *port);
struct ibv_mr *rig_register(struct rig_port *port, void *memory, size_t bytes, unsigned more_access);
void rig_make(struct rig_queue *queue, struct rig_port *port, enum rig_kind kind, uint32_t blocks);
/* The same with rings and records in memory of other addresses for the NIC (DEVX only): alloc() gives bytes, zeroed, and at() where this program has
 * them. They stay the allocator's. */
struct rig_memory {
	uint64_t (*alloc)(size_t bytes, int device);
	void *(*at)(uint64_t address);
};
void rig_make_in(struct rig_queue *queue, struct rig_port *port, enum rig_kind kind, uint32_t blocks, const struct rig_memory *memory);
void rig_destroy(struct rig_queue *queue);
/* To ready-to-send. timeout, retries: small, tests wait for them. */
void rig_connect(struct rig_queue *queue, uint32_t peer_qpn, const union ibv_gid *peer);
void rig_connect_pair(struct rig_queue *a, struct rig_queue *b);
/* Exchanges bytes with the other of two ranks, over MARROW_ROOT. */
void rig_swap(const void *mine, void *other, size_t bytes);

/* Until the other rank's process has ended. */
void rig_wait_gone(void);

/* WQEs at the next index; they are not rung. Returns the bytes of the first block. */
uint8_t *rig_control(struct rig_queue *queue, uint8_t opcode, uint8_t opmod, uint32_t size, bool signalled);
void rig_write(struct rig_queue *queue, void *to, uint32_t rkey, const void *from, uint32_t lkey, uint32_t bytes, bool signalled);
void rig_write_inline(struct rig_queue *queue, void *to, uint32_t rkey, const void *from, uint32_t bytes, bool signalled);
void rig_read(struct rig_queue *queue, void *to, uint32_t lkey, const void *from, uint32_t rkey, uint32_t bytes, bool signalled);
void rig_fetch_add(struct rig_queue *queue, uint64_t *at, uint32_t rkey, uint64_t *result, uint32_t lkey, uint64_t add, bool signalled);
void rig_put32(uint8_t *at, uint32_t value);
void rig_put64(uint8_t *at, uint64_t value);
/* The bytes of a block, and of a segment within the WQE at an index (it may wrap). */
uint8_t *rig_block(struct rig_queue *queue, uint64_t index);

/* Record, then doorbell with the next index; or the last one's (without a record there is only the next). */
void rig_ring(struct rig_queue *queue);
void rig_ring_last(struct rig_queue *queue);
void rig_bell(struct rig_queue *queue, uint64_t index);
void rig_record(struct rig_queue *queue, uint32_t value);
/* Until the last WQE, which must be signalled, is complete: syndrome, 0, or -1 after seconds. */
int rig_wait(struct rig_queue *queue, double seconds);
double rig_now(void);

#endif
