/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The part of the wire format with which a watch keeps to its budget: what programs cost, what is
 * thinned, and the counts that stay exact meanwhile. Included by wire.h, whose rules hold here too.
 */
#ifndef IOWHY_WIRE_BUDGET_H
#define IOWHY_WIRE_BUDGET_H

#define WIRE_SKIPPED	   8192	      /* requests in flight that are not recorded; a power of two */
#define WIRE_LONG_WAIT_NS  10000000   /* waits of this length are always recorded */
#define WIRE_LISTED_NS	   1000000000 /* requests in flight for so long are listed, if skipped */
#define WIRE_COMMON_TOTALS 16  /* exact counts on each CPU without a search; a power of two */
#define WIRE_RESTING_DISKS 4   /* disks on which programs rest at once */
#define WIRE_LATENCIES	   112 /* buckets of an exact histogram, see wire_latency_bits */

/* The programs on tracepoints, whose cost is measured. */
#define PROGRAM_LIST(X)          \
	X(count_completion)      \
	X(count_bio_completion)  \
	X(on_complete)           \
	X(on_complete_again)     \
	X(on_bio_complete)       \
	X(on_bio_complete_again) \
	X(on_requeue)            \
	X(on_issue)              \
	X(on_issue_again)        \
	X(on_insert)             \
	X(on_insert_again)       \
	X(on_get)                \
	X(on_get_again)          \
	X(on_split)              \
	X(on_split_again)        \
	X(on_queue)              \
	X(on_queue_again)        \
	X(event_complete)        \
	X(event_bio_complete)    \
	X(event_requeue)         \
	X(event_issue)           \
	X(event_insert)          \
	X(event_merge)           \
	X(event_unplug)          \
	X(event_plug)            \
	X(event_get)             \
	X(event_frontmerge)      \
	X(event_backmerge)       \
	X(event_split)           \
	X(event_queue)           \
	X(event_remap)           \
	X(on_dirty)              \
	X(on_dirty_page)         \
	X(on_waking)             \
	X(on_switch)             \
	X(on_posix_lock)         \
	X(on_flock)              \
	X(on_call)               \
	X(on_call_begins)        \
	X(on_uring_complete)     \
	X(on_file_fault)         \
	X(on_file_mapped)        \
	X(on_page_added)         \
	X(on_page_removed)

#define PROGRAM_ID(name) PROGRAM_##name,
enum wire_program { PROGRAM_LIST(PROGRAM_ID) PROGRAM_COUNT };
#undef PROGRAM_ID

/* One program's runs on one CPU, of which one in 256 is timed. */
struct wire_cost {
	unsigned long long runs;
	unsigned long long timed;
	unsigned long long ns;
};

struct wire_costs {
	struct wire_cost of[PROGRAM_COUNT];
};

/* How requests are thinned. */
struct wire_thinning {
	unsigned int adaptive;	   /* 0: every request is recorded */
	unsigned int one_in;	   /* one in so many requests is recorded; a power of two */
	unsigned int waits_one_in; /* likewise */
	unsigned int last_padding;
	unsigned long long slow_ns;	 /* requests that take so long are always recorded */
	unsigned long long kept_from_ns; /* what was kept of skipped ones before is not valid */
	/* Disks on which programs rest: nothing is kept of requests that are not recorded. 0: free. */
	unsigned int resting[WIRE_RESTING_DISKS];
};

/* A request in flight that is not recorded, unless it turns out to be slow. */
struct wire_skipped {
	unsigned long long bio; /* 0: free */
	unsigned long long queue_ns;
	unsigned long long issue_ns;
	unsigned long long pid_tgid;
	unsigned long long sector;
	unsigned int bytes;
	unsigned int device;
	unsigned int operation;
	unsigned int cpu;
	unsigned long long last_padding; /* a cache line */
};

/* Which exact counts: of one kind of operation on one disk. */
struct wire_total_key {
	unsigned int device;	/* 0: disks beyond those that the table holds */
	unsigned int operation; /* the kernel's enum req_op */
};

/*
 * Buckets of an exact histogram: each power of two is divided into four. The first holds all below
 * 2^FLOOR ns, the last one all above.
 */
enum wire_latency_bits { LATENCY_FLOOR_BITS = 10, LATENCY_STEP_BITS = 2 };

/* Exact counts on one CPU. They only grow, those of 32 bits wrap. */
struct wire_total {
	unsigned long long requests;
	unsigned long long bytes;
	unsigned long long errors;
	unsigned long long timed;      /* those with a start */
	unsigned long long latency_ns; /* from the kernel's own start to completion */
	unsigned long long latency_max_ns;
	unsigned long long issued; /* those whose issue the kernel stamped */
	unsigned long long device_ns;
	unsigned long long device_max_ns;
	unsigned int latencies[WIRE_LATENCIES];
	unsigned int device_times[WIRE_LATENCIES];
};

/* The same with its key. */
struct wire_common_total {
	struct wire_total_key key;
	unsigned int is_taken;
	unsigned int padding;
	struct wire_total total;
};

#endif
