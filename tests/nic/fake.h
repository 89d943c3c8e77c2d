/* fake.h - what the fake libibverbs and libmlx5 do. The test loads them before the library looks for the real ones: they carry their
 * names. They make objects and count them; any call that can fail may be told to. */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "proxyless/verbs.h"

enum { FAKE_DEVICES = 3, FAKE_GIDS = 6 }; /* mlx5_0, mlx5_1, other_0 */

struct fake {
	int fail_at, error;        /* the fail_at-th call that can fail does, with this error number; 0: none */
	int calls;                 /* that can fail, so far */
	const char *failed;        /* the one that did */
	int live;                  /* objects */
	int open_error;            /* of opening any device */
	bool no_devx_open;         /* contexts with device commands are refused */
	bool no_devx_queues;       /* device commands are refused */
	int port_state[2];         /* of all devices' ports */
	uint8_t layer;
	int mtu;
	uint32_t gid_type[FAKE_GIDS];
	uint8_t gid[FAKE_GIDS][16];
	struct ibv_async_event event;
	bool has_event;
	/* what was seen last */
	struct ibv_qp_attr attr;   /* all masked fields together; ah_attr also of an address handle */
	uint8_t command[3][272];   /* RST2INIT, INIT2RTR, RTR2RTS */
	uint8_t create[2][272];    /* CREATE_CQ, CREATE_QP */
	struct mrw_umem_in umem;   /* of mlx5dv_devx_umem_reg_ex() */
};

extern struct fake fake;

/* One more call that can fail: 0, or the error number to fail with. */
int fake_call(const char *name);
void *fake_object(size_t bytes);
int fake_free(void *object);

#endif
