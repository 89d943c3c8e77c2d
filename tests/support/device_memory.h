/* device_memory.h - what tests and perf programs need of the CUDA runtime; without CUDA in the build every call fails and
 * device_count() is 0.
 *
 * Functions return 0, or -1 with the reason in device_error(). Streams, events and graphs are opaque pointers; a NULL stream
 * is the legacy default stream. */
#ifndef TEST_DEVICE_MEMORY_H
#define TEST_DEVICE_MEMORY_H

#include <stddef.h>

/* Why this thread's last call failed. */
const char *device_error(void);

int device_count(void);
/* Makes the device current for the calling thread. */
int device_set(int device);
/* Waits for all streams of the current device. */
int device_synchronize(void);
int device_free_bytes(size_t *bytes);
/* "[0000:19:00] name" */
int device_describe(int device, char *text, size_t size);
/* 0 if a can map b's memory, 1 if not, -1 on failure. */
int device_lacks_peer_access(int a, int b);

int device_alloc(void **memory, size_t bytes);
void device_free(void *memory);
/* Host memory that copies fast. */
int device_alloc_pinned(void **memory, size_t bytes);
void device_free_pinned(void *memory);
/* Any direction, between any devices; done on return. */
int device_copy(void *to, const void *from, size_t bytes);
int device_fill_bytes(void *memory, int byte, size_t bytes);

/* A stream that does not wait for the default stream. */
int device_stream_create(void **stream);
void device_stream_destroy(void *stream);
int device_stream_synchronize(void *stream);

enum device_capture { DEVICE_CAPTURE_GLOBAL, DEVICE_CAPTURE_THREAD_LOCAL, DEVICE_CAPTURE_RELAXED };
int device_capture_begin(void *stream, enum device_capture mode);
/* Ends the capture and instantiates; on failure *graph is NULL. */
int device_capture_end(void *stream, void **graph);
int device_graph_launch(void *graph, void *stream);
void device_graph_destroy(void *graph);

int device_event_create(void **event);
void device_event_destroy(void *event);
int device_event_record(void *event, void *stream);
/* Both events must have passed. */
int device_event_elapsed_us(void *start, void *stop, double *us);

#endif
