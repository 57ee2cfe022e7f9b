/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * How a record leaves the kernel: the ring buffer, counters of what was dropped, and per-CPU
 * scratch buffers for records that are too large for the BPF stack.
 */
#ifndef IOWHY_EMIT_H
#define IOWHY_EMIT_H

#include "compat.bpf.h"
#include "wire.h"

/* User space sets its size: settings.ring_bytes. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

/*
 * A single atomic instruction, because interrupts count, too: a lost increment would be an
 * unreported loss.
 */
static __always_inline void count(u32 counter)
{
	u64 *value = bpf_map_lookup_elem(&counters, &counter);

	if (value)
		atomic_add(value, 1);
}

/*
 * Returns the next of a CPU's numbers. Interrupts take numbers, too: none is given twice, except on
 * kernels without the atomic instruction (see in_flight.bpf.h).
 */
static __always_inline u64 next_number(u64 *last)
{
#ifdef IOWHY_NO_ATOMICS
	*last += 1;
	return *last;
#else
	return __sync_fetch_and_add(last, 1) + 1;
#endif
}

/*
 * Sends `size` bytes. User space polls: a wakeup per record would cost more than the record.
 */
static __always_inline bool emit(void *record, u64 size, u32 counter)
{
	if (bpf_ringbuf_output(&ring, record, size, BPF_RB_NO_WAKEUP) == 0)
		return true;
	count(counter);
	return false;
}

/*
 * Scratch buffers, one large record per CPU and level. A program runs at most once at a time on a
 * CPU; programs that can interrupt or preempt others have a level of their own.
 */
enum room_level {
	ROOM_SUBMIT,
	ROOM_COMPLETE, /* interrupts all others */
	ROOM_OWNERS,   /* while a completion uses its own */
	ROOM_DIRTY,
	ROOM_CALL,
	ROOM_URING, /* completed by threads, which a device's completion interrupts */
	ROOM_WAKE,  /* interrupts wake threads, too, while a program takes a stack */
	ROOM_LIST,  /* iterator programs are preemptible */
	ROOM_LEVELS,
};

#define ROOM_BYTES 8192 /* a power of two, so that masking a size bounds it */

union room {
	struct wire_task task;
	struct wire_file file;
	struct wire_cgroup cgroup;
	struct wire_stack stack;
	struct wire_sleeper sleeper;
	struct wire_thread_sleeper thread_sleeper;
	struct wire_call call;
	struct wire_directory directory;
	struct wire_owners owners;
	struct wire_skipped skipped;
	struct {
		struct wire_request request;
		struct wire_part more[WIRE_MAX_PARTS];
	} parts;
	char bytes[ROOM_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROOM_LEVELS);
	__type(key, u32);
	__type(value, union room);
} rooms SEC(".maps");

static __always_inline union room *room_of(u32 level)
{
	return bpf_map_lookup_elem(&rooms, &level);
}

/*
 * What has been sent to user space already: each slot holds the last key that hashed to it. A
 * collision or a torn write repeats a record, but never loses one.
 */
struct seen {
	u64 key;
	u64 check;
};

#define SEEN_SLOTS 16384

#define SEEN_MAP(name)                            \
	struct {                                  \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(max_entries, SEEN_SLOTS);  \
		__type(key, u32);                 \
		__type(value, struct seen);       \
	} name SEC(".maps")

static __always_inline struct seen *seen_slot(void *map, u64 key)
{
	u32 slot = (key * 0x9e3779b97f4a7c15ULL) >> 50; /* 14 bits: SEEN_SLOTS */

	return bpf_map_lookup_elem(map, &slot);
}

static __always_inline bool is_seen(struct seen *slot, u64 key, u64 check)
{
	return slot && slot->key == key && slot->check == check;
}

static __always_inline void mark_seen(struct seen *slot, u64 key, u64 check)
{
	if (slot) {
		slot->key = key;
		slot->check = check;
	}
}

/* The last completion on each CPU: a task woken just after it waited for it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct wire_ended);
} last_ended SEC(".maps");

/* Appends one name; returns false if it does not fit. */
static __always_inline bool add_name(struct wire_names *names, const void *text)
{
	u32 at = names->bytes;
	long length;

	if (at > WIRE_NAMES_LEN - 256 || names->count >= WIRE_NAMES_MAX) {
		names->cut = 1;
		return false;
	}
	length = bpf_probe_read_kernel_str(&names->text[at], 256, text);
	if (length <= 0) {
		names->cut = 1;
		return false;
	}
	names->bytes = at + length;
	names->count += 1;
	return true;
}

static __always_inline void clear_names(struct wire_names *names)
{
	names->count = 0;
	names->bytes = 0;
	names->cut = 0;
	names->padding = 0;
}

/* The size of a record that ends in names. */
#define NAMED_SIZE(type, record) \
	((__builtin_offsetof(type, names.text) + (record)->names.bytes) & (ROOM_BYTES - 1))

#endif
