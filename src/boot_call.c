#include "boot_call.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "boot_setup.h"

enum {
	TRY_MS = 5000, /* one try */
	PAUSE_MS = 50  /* before the next one; doubles */
};

void mrw_call_begin(struct mrw_call *call, struct mrw_boot_link *link, uint32_t rank, const struct mrw_boot_member *member)
{
	*call = (struct mrw_call){.link = link, .rank = rank, .member = member, .state = MRW_CALL_IDLE};
	mrw_conn_start(&call->conn, -1, NULL, 0);
}

/* Where to dial at this try. */
static const struct mrw_addr *target(const struct mrw_setup *setup, const struct mrw_call *call)
{
	uint32_t naddrs = 0;

	if (!setup->is_root && call->link && call->rank == setup->root_rank)
		return &setup->root_addr;
	while (naddrs < MRW_BOOT_OWN_ADDRS && call->member->addrs[naddrs].family)
		naddrs++;
	return &call->member->addrs[naddrs ? call->tries % naddrs : 0];
}

char *mrw_call_obstacle(const struct mrw_setup *setup, const struct mrw_call *call, char *text, size_t room)
{
	char addr[MRW_ADDR_TEXT_BYTES];

	snprintf(text, room, "at %s (%s)", mrw_addr_text(target(setup, call), true, addr), call->error ? strerror(call->error) : "no answer yet");
	return text;
}

static void retry(struct mrw_call *call, int error)
{
	uint32_t shift = call->tries < 5 ? call->tries : 5;

	mrw_conn_close(&call->conn);
	call->error = error;
	call->tries++;
	call->state = MRW_CALL_IDLE;
	call->next_ms = mrw_boot_now_ms() + ((uint64_t)PAUSE_MS << shift);
}

static enum marrow_status dial(const struct mrw_setup *setup, struct mrw_call *call)
{
	int fd = mrw_sock_dial(target(setup, call));

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return mrw_sock_fail(call->link ? "connecting to a neighbour" : "connecting to the parent in the tree");
	if (fd < 0) {
		retry(call, errno);
		return MARROW_SUCCESS;
	}
	mrw_conn_start(&call->conn, fd, target(setup, call), MRW_ERROR_TEXT_BYTES);
	call->state = MRW_CALL_DIALLING;
	call->next_ms = mrw_boot_now_ms() + TRY_MS;
	return MARROW_SUCCESS;
}

static enum marrow_status greet(struct mrw_setup *setup, struct mrw_call *call)
{
	int error = mrw_sock_dialled(call->conn.fd);
	struct mrw_hello hello;

	if (error) {
		retry(call, error);
		return MARROW_SUCCESS;
	}
	mrw_setup_hello(setup, call->link ? MRW_HELLO_LINK : MRW_HELLO_CHILD, call->rank, &hello);
	if (!mrw_conn_push(&call->conn, MRW_FRAME_HELLO, 0, &hello, sizeof hello))
		return mrw_fail(MARROW_OUT_OF_MEMORY, "no memory for the bootstrap");
	call->state = MRW_CALL_ASKING;
	return MARROW_SUCCESS;
}

static enum marrow_status hear_answer(struct mrw_setup *setup, struct mrw_call *call)
{
	struct mrw_frame *frame;
	enum marrow_status status = MARROW_SUCCESS;
	bool answered;

	mrw_conn_flush(&call->conn);
	switch (mrw_conn_pull(&call->conn, &frame)) {
	case MRW_CONN_AGAIN:
		return MARROW_SUCCESS;
	case MRW_CONN_FRAME:
		break;
	default:
		retry(call, ECONNRESET);
		return MARROW_SUCCESS;
	}
	answered = frame->type == MRW_FRAME_LINKED && frame->tag == call->rank;
	if (!call->link && frame->type == MRW_FRAME_ERROR)
		status = mrw_tree_fail_as_told(setup, frame);
	free(frame);
	if (status != MARROW_SUCCESS)
		return status;
	if (!answered) {
		retry(call, ECONNRESET);
		return MARROW_SUCCESS;
	}
	call->state = MRW_CALL_DONE;
	if (!call->link)
		return mrw_join_seated(setup, &call->conn);
	mrw_conn_move(&call->link->conn, &call->conn);
	return MARROW_SUCCESS;
}

void mrw_call_watch(struct mrw_setup *setup, struct mrw_call *call, uint64_t *until_ms)
{
	call->conn.slot = SIZE_MAX;
	if (call->state == MRW_CALL_DIALLING)
		call->conn.slot = mrw_pollset_add(&setup->set, call->conn.fd, POLLOUT);
	else if (call->state == MRW_CALL_ASKING)
		call->conn.slot = mrw_pollset_add(&setup->set, call->conn.fd, mrw_conn_wants(&call->conn));
	if (call->state != MRW_CALL_NONE && call->state != MRW_CALL_DONE && call->next_ms < *until_ms)
		*until_ms = call->next_ms;
}

enum marrow_status mrw_call_advance(struct mrw_setup *setup, struct mrw_call *call)
{
	bool something = mrw_pollset_events(&setup->set, call->conn.slot) != 0;

	if (call->state == MRW_CALL_IDLE)
		return mrw_boot_now_ms() >= call->next_ms ? dial(setup, call) : MARROW_SUCCESS;
	if (something && call->state == MRW_CALL_DIALLING)
		MRW_TRY(greet(setup, call));
	else if (something && call->state == MRW_CALL_ASKING)
		MRW_TRY(hear_answer(setup, call));
	if ((call->state == MRW_CALL_DIALLING || call->state == MRW_CALL_ASKING) && mrw_boot_now_ms() >= call->next_ms)
		retry(call, ETIMEDOUT);
	return MARROW_SUCCESS;
}
