/* Notices: what ranks say to all others, and what their sockets say when they go. They travel by gossip over the links, each rank
 * passing on what it hears for the first time; who has left passes nothing on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "boot.h"

/* An exchange that waits looks up so often whether another thread of this rank told of an abort. */
enum { PATIENCE_MS = 100 };

static bool has_heard(const struct mrw_boot *boot, enum mrw_boot_notice notice, uint32_t rank)
{
	return boot->heard[rank] >> notice & 1;
}

static void pass_on(struct mrw_boot *boot, enum mrw_boot_notice notice, uint32_t rank, const char *text,
		    const struct mrw_boot_link *from)
{
	for (uint32_t i = 0; i < boot->nlinks; i++)
		if (&boot->links[i] != from && !boot->links[i].down)
			mrw_conn_push(&boot->links[i].conn, MRW_FRAME_NOTICE, (uint64_t)notice << 32 | rank, text,
				      strlen(text));
}

static void take_trouble(struct mrw_boot *boot, const struct mrw_boot_event *event)
{
	if (event->notice == MRW_NOTICE_BYE || boot->troubled)
		return;
	boot->troubled = true;
	boot->trouble = *event;
}

void mrw_boot_note(struct mrw_boot *boot, enum mrw_boot_notice notice, uint32_t rank, const char *text,
		   const struct mrw_boot_link *from)
{
	struct mrw_boot_event event = {.notice = notice, .rank = rank};
	struct mrw_boot_news *news, **last = &boot->news;

	if (has_heard(boot, notice, rank))
		return;
	boot->heard[rank] |= (uint8_t)(1 << notice);
	mrw_conn_copy_text(event.text, sizeof event.text, text, strlen(text));
	take_trouble(boot, &event);
	news = malloc(sizeof *news);
	if (news) {
		*news = (struct mrw_boot_news){.event = event};
		while (*last)
			last = &(*last)->next;
		*last = news;
	}
	pass_on(boot, notice, rank, event.text, from);
}

enum marrow_status mrw_boot_check_trouble(const struct mrw_boot *boot, const char *what)
{
	const struct mrw_boot_event *trouble = &boot->trouble;
	const char *name = mrw_boot_name(boot, trouble->rank);

	if (!boot->troubled)
		return MARROW_SUCCESS;
	if (trouble->notice == MRW_NOTICE_ABORT)
		return mrw_fail(MARROW_REMOTE_ERROR, "%s: %s aborted%s%s", what, name, trouble->text[0] ? ": " : "",
				trouble->text);
	return mrw_fail(MARROW_REMOTE_ERROR, "%s: %s: %s", what, name, trouble->text[0] ? trouble->text : "failed");
}

static void hear_notice(struct mrw_boot *boot, struct mrw_boot_link *link, const struct mrw_frame *frame)
{
	uint32_t rank = (uint32_t)frame->tag;
	uint64_t notice = frame->tag >> 32;
	char text[sizeof((struct mrw_boot_event *)NULL)->text];

	if (rank >= boot->nranks || notice <= MRW_NOTICE_NONE || notice >= MRW_BOOT_NOTICE_KINDS)
		return;
	if (notice == MRW_NOTICE_BYE && rank == link->rank)
		link->said_bye = true;
	mrw_conn_copy_text(text, sizeof text, frame->data, frame->bytes);
	mrw_boot_note(boot, (enum mrw_boot_notice)notice, rank, text, link);
}

static void read_link(struct mrw_boot *boot, struct mrw_boot_link *link)
{
	struct mrw_frame *frame, **last;

	for (;;) {
		switch (mrw_conn_pull(&link->conn, &frame)) {
		case MRW_CONN_AGAIN:
			return;
		case MRW_CONN_FRAME:
			if (frame->type == MRW_FRAME_EXCHANGE) {
				for (last = &link->arrived; *last; last = &(*last)->next)
					;
				*last = frame;
				break;
			}
			if (frame->type == MRW_FRAME_NOTICE)
				hear_notice(boot, link, frame);
			free(frame);
			break;
		case MRW_CONN_CLOSED:
			link->down = true;
			if (!has_heard(boot, MRW_NOTICE_BYE, link->rank))
				mrw_boot_note(boot, MRW_NOTICE_DEAD, link->rank, "closed its connection", link);
			return;
		case MRW_CONN_GARBAGE:
			link->down = true;
			mrw_boot_note(boot, MRW_NOTICE_DEAD, link->rank, "sent what is no frame", link);
			return;
		case MRW_CONN_NO_MEMORY:
			link->down = true;
			mrw_boot_note(boot, MRW_NOTICE_DEAD, link->rank, "is cut off: no memory for what it sent",
				      link);
			return;
		}
	}
}

void mrw_boot_pump(struct mrw_boot *boot, int also_fd, uint64_t until_ms)
{
	uint64_t latest_ms = mrw_boot_now_ms() + PATIENCE_MS;

	/* Only one thread at a time pumps: the exchanging one, or a watching one that holds the lock throughout. */
	boot->set.count = 0;
	for (uint32_t i = 0; i < boot->nlinks; i++) {
		struct mrw_conn *conn = &boot->links[i].conn;

		conn->slot =
			boot->links[i].down ? SIZE_MAX : mrw_pollset_add(&boot->set, conn->fd, mrw_conn_wants(conn));
	}
	if (also_fd >= 0)
		mrw_pollset_add(&boot->set, also_fd, POLLIN);
	if (until_ms) {
		pthread_mutex_unlock(&boot->lock);
		mrw_pollset_wait(&boot->set, until_ms < latest_ms ? until_ms : latest_ms);
		pthread_mutex_lock(&boot->lock);
	} else {
		mrw_pollset_wait(&boot->set, 0);
	}
	for (uint32_t i = 0; i < boot->nlinks; i++) {
		struct mrw_boot_link *link = &boot->links[i];

		if (link->down || !mrw_pollset_events(&boot->set, link->conn.slot))
			continue;
		mrw_conn_flush(&link->conn);
		read_link(boot, link);
	}
}

void mrw_boot_tell(struct mrw_boot *boot, enum mrw_boot_notice notice, const char *text)
{
	struct mrw_boot_event event = {.notice = notice, .rank = boot->rank};

	text = text ? text : "";
	mrw_conn_copy_text(event.text, sizeof event.text, text, strlen(text));
	pthread_mutex_lock(&boot->lock);
	/* Marked as heard: gossip that returns is no news. An exchange under way in another thread leaves. */
	if (notice != MRW_NOTICE_NONE && !has_heard(boot, notice, boot->rank)) {
		boot->heard[boot->rank] |= (uint8_t)(1 << notice);
		take_trouble(boot, &event);
		pass_on(boot, notice, boot->rank, event.text, NULL);
	}
	pthread_mutex_unlock(&boot->lock);
}

/* Bits of the notices heard of rank by now. */
static uint8_t look_for(struct mrw_boot *boot, uint32_t rank)
{
	uint8_t heard;

	pthread_mutex_lock(&boot->lock);
	if (!boot->exchanging && boot->nlinks)
		mrw_boot_pump(boot, -1, 0);
	heard = boot->heard[rank];
	pthread_mutex_unlock(&boot->lock);
	return heard;
}

bool mrw_boot_is_gone(struct mrw_boot *boot, uint32_t rank)
{
	return look_for(boot, rank) & (1 << MRW_NOTICE_BYE | 1 << MRW_NOTICE_DEAD);
}

bool mrw_boot_has_spoken(struct mrw_boot *boot, uint32_t rank)
{
	return look_for(boot, rank) != 0;
}

bool mrw_boot_watch(struct mrw_boot *boot, struct mrw_boot_event *event)
{
	struct mrw_boot_news *news;

	pthread_mutex_lock(&boot->lock);
	if (!boot->news && !boot->exchanging && boot->nlinks)
		mrw_boot_pump(boot, -1, 0);
	news = boot->news;
	if (news) {
		*event = news->event;
		boot->news = news->next;
	}
	pthread_mutex_unlock(&boot->lock);
	free(news);
	return news != NULL;
}
