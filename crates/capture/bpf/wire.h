/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The wire format: every record that the BPF programs send to user space, and every enum that both
 * sides use. Only fixed-width integers and explicit padding; build.rs generates the Rust side from
 * it. Kernel types do not belong here.
 */
#ifndef IOWHY_WIRE_H
#define IOWHY_WIRE_H

#include "wire_budget.h"
#include "wire_copies.h"

#define WIRE_COMM_LEN	   16
#define WIRE_NAMES_LEN	   4096	 /* bytes of a path's components, leaf first, NUL-terminated */
#define WIRE_NAMES_MAX	   48	 /* components */
#define WIRE_MAX_PARTS	   32	 /* files or extents distinguished in one request */
#define WIRE_DIRTY_INODES  16384 /* inodes whose dirtiers are kept */
#define WIRE_MAX_OWNERS	   8	 /* dirtiers kept per inode */
#define WIRE_OWNER_BITS	   40	 /* bits for a dirtier's bytes; its tgid is above them */
#define WIRE_KERNEL_FRAMES 48
#define WIRE_USER_FRAMES   64
#define WIRE_TAGS_AT_ONCE  256
#define WIRE_WAIT_FRAMES   32	 /* frames of a waiting thread's kernel stack */
#define WIRE_WAIT_STACKS   4096	 /* entries of each of the two stack maps */
#define WIRE_USER_STACKS   4096	 /* entries of the map of waiting threads' user stacks */
#define WIRE_THREADS	   32768 /* threads distinguished by the low bits of their tid */
#define WIRE_CALLS	   512	 /* system call numbers */
#define WIRE_MAX_DEVICES   16	 /* devices that a watch can be limited to */
#define WIRE_PATH_LEN	   4096	 /* bytes of a path as passed by a program */
#define WIRE_USE_SLOTS	   64	 /* recently used files per CPU; a power of two */
#define WIRE_URING_CODES   256	 /* io_uring's opcodes: one byte */

/* A task woken on a CPU this soon after a completion on the same CPU was woken by it. */
#define WIRE_ENDED_JUST_NOW_NS 20000

/* The kind is the first field of every record. */
enum wire_kind {
	WIRE_REQUEST = 1,
	WIRE_OWNERS,
	WIRE_TASK,
	WIRE_FILE,
	WIRE_CGROUP,
	WIRE_STACK,
	WIRE_EVENT,
	WIRE_WAIT,
	WIRE_DIRECTORY,
	WIRE_CALL,
	WIRE_LATE_WAIT, /* a wire_sleeper: a long wait that was not chosen to be recorded */
	WIRE_COPIED_STACK,
	WIRE_SLACK,
};

/* Counters of the BPF programs; user space reads the sums at the end. */
enum wire_counter {
	COUNT_RING_FULL_REQUEST,   /* completed requests dropped: ring buffer full */
	COUNT_RING_FULL_DETAIL,	   /* names, tasks, owners or stacks dropped: ring buffer full */
	COUNT_RING_FULL_EVENT,	   /* single events dropped: ring buffer full */
	COUNT_MAP_FULL,		   /* bios or requests dropped: in-flight table full */
	COUNT_END_MISSED,	   /* requests whose address was reused before an end was seen */
	COUNT_STACK_FAILED,	   /* stacks that the kernel could not capture */
	COUNT_PARTS_AGGREGATED,	   /* requests of more files or extents than are distinguished */
	COUNT_CHAIN_CUT,	   /* requests of more bios than are read */
	COUNT_PATH_CUT,		   /* paths that are too deep or too long */
	COUNT_RING_FULL_WAIT,	   /* waits dropped: ring buffer full */
	COUNT_SLEEPERS_FULL,	   /* waits beyond those that are tracked at once */
	COUNT_WAIT_ENDS,	   /* waits whose end was not seen */
	COUNT_WAIT_STACKS,	   /* waits whose stack could not be stored */
	COUNT_CHAINS_SKIPPED,	   /* waits for other threads beyond those sent per second */
	COUNT_DIRTIERS_AGGREGATED, /* dirtied pages charged to an inode's "others" of several names */
	COUNT_USES_FULL,	   /* calls on files beyond those distinguished per second */
	COUNT_USES_COMPAT,	   /* calls of 32-bit programs, which have other numbers */
	COUNT_RING_FULL_CALL,	   /* single calls dropped: ring buffer full */
	COUNT_SUBMITTED_CUT,	   /* io_submit calls with more iocbs than are read */
	COUNT_CALLS_LEFT_OUT,	   /* single calls beyond those sent per second */
	COUNT_PATH_UNREAD,	   /* calls whose path could not be read */
	COUNT_ENDED_IN_PARTS,	   /* requests of which a part completed before the rest */
	COUNT_RETRIED,		   /* not a loss: REQ_NOWAIT bios that are resubmitted */
	COUNT_DIRTY_INODES,	   /* not a loss: inodes whose dirtiers were kept */
	COUNT_COUNTERS,
};

/*
 * The bi_end_io functions of bios, which reveal what a bio is for. X(id, kernel symbol): user space
 * resolves the symbol and passes the address. The address of a symbol that this kernel lacks stays
 * 0 and never matches.
 */
#define END_IO_LIST(X)                                    \
	X(END_IO_IOMAP_DIO, iomap_dio_bio_end_io)         \
	X(END_IO_CHAIN, bio_chain_endio)                  \
	X(END_IO_BLKDEV, blkdev_bio_end_io)               \
	X(END_IO_BLKDEV_ASYNC, blkdev_bio_end_io_async)   \
	X(END_IO_BLKDEV_SIMPLE, blkdev_bio_end_io_simple) \
	X(END_IO_SUBMIT_WAIT, submit_bio_wait_endio)      \
	X(END_IO_BUFFER_HEAD, end_bio_bh_io_sync)         \
	X(END_IO_XFS_BUF, xfs_buf_bio_end_io)             \
	X(END_IO_XFS_LOG, xlog_bio_end_io)                \
	X(END_IO_BTRFS, btrfs_simple_end_io)              \
	X(END_IO_BTRFS_WRITE, btrfs_orig_write_end_io)    \
	X(END_IO_BTRFS_DIRECT, btrfs_end_dio_bio)         \
	X(END_IO_SWAP_READ, end_swap_bio_read)            \
	X(END_IO_SWAP_WRITE, end_swap_bio_write)          \
	X(END_IO_JBD2, journal_end_buffer_io_sync)        \
	X(END_IO_LOOP, lo_rw_aio_complete)                \
	X(END_IO_URING, io_complete_rw)                   \
	X(END_IO_MPAGE_READ, mpage_read_end_io)           \
	X(END_IO_EXT4_READ, mpage_end_io)                 \
	X(END_IO_EXT4_WRITE, ext4_end_bio)                \
	X(END_IO_IOMAP_READ, iomap_read_end_io)           \
	X(END_IO_IOMAP_WRITE, ioend_writeback_end_bio)    \
	X(END_IO_XFS_WRITE, xfs_end_bio)                  \
	X(END_IO_DM, clone_endio)

/* Names of the same functions in other kernels. No kernel has both. */
#define END_IO_ALIASES(X)                                              \
	X(END_IO_SUBMIT_WAIT, bio_wait_end_io)	       /* 7.x */       \
	X(END_IO_BTRFS, btrfs_end_bio)		       /* until 6.0 */ \
	X(END_IO_IOMAP_WRITE, iomap_writepage_end_bio) /* until 6.15 */

/*
 * Functions whose names also exist in other modules, with their own module: dm_flakey has a
 * clone_endio since 1d9a94389853, 6.5. If it is built in, the plain name finds the kernel's own
 * first.
 */
#define END_IO_MODULES(X) X(END_IO_DM, dm_mod, clone_endio)

#define END_IO_ID(id, symbol) id,
enum wire_end_io { END_IO_UNKNOWN, END_IO_LIST(END_IO_ID) END_IO_COUNT };
#undef END_IO_ID

/* Addresses of those functions; 0 if this kernel has none of that name, or hides it. */
struct wire_symbols {
	unsigned long long end_io[END_IO_COUNT];
	unsigned long long tracepoint_srcu; /* the SRCU of tracepoints from 7.x on */
};

/* How the file of a part was found, or why it has none. */
enum wire_found {
	FOUND_NOT,	   /* not found */
	FOUND_DIRECT,	   /* the open file of a direct I/O */
	FOUND_PAGE,	   /* the page cache page that is read or written back */
	FOUND_BTRFS,	   /* the inode that btrfs stores with its bio */
	FOUND_RAW,	   /* direct I/O on the block device itself */
	FOUND_RAW_ANON,	   /* user memory, waited for synchronously: block device or swap */
	FOUND_BDEV_PAGE,   /* a page of the block device's own cache */
	FOUND_METADATA,	   /* blocks that a file system marks as or owns as metadata */
	FOUND_JOURNAL,	   /* owned by a journal */
	FOUND_SWAP,	   /* anonymous memory */
	FOUND_NO_DATA,	   /* flush, discard, zeroing: carries no pages */
	FOUND_NO_MAPPING,  /* a page without a file */
	FOUND_ANONYMOUS,   /* anonymous memory of an unknown owner */
	FOUND_PASSTHROUGH, /* a passthrough command of a driver */
	FOUND_BELOW,	   /* not contiguous in the file: the lower request has the parts */
};

/* blktrace's numbers of actions (uapi/linux/blktrace_api.h). */
enum wire_event_action {
	EVENT_QUEUE = 1,
	EVENT_BACKMERGE = 2,
	EVENT_FRONTMERGE = 3,
	EVENT_GETRQ = 4,
	EVENT_REQUEUE = 6,
	EVENT_ISSUE = 7,
	EVENT_COMPLETE = 8,
	EVENT_PLUG = 9,
	EVENT_UNPLUG_IO = 10,
	EVENT_UNPLUG_TIMER = 11,
	EVENT_INSERT = 12,
	EVENT_SPLIT = 13,
	EVENT_REMAP = 15,
};

/* Set by user space before a program is loaded; constants to the verifier. */
struct wire_settings {
	unsigned long long end_io[END_IO_COUNT]; /* addresses; 0 if this kernel has none */
	/*
	 * Bitmaps: calls whose first argument is a file, those that sleep for the caller's I/O,
	 * those that sleep until another thread does something, those of them that sleep until
	 * something arrives, those that send, and those on file names.
	 */
	unsigned long long file_calls[WIRE_CALLS / 64];
	unsigned long long sleep_calls[WIRE_CALLS / 64];
	unsigned long long thread_calls[WIRE_CALLS / 64];
	unsigned long long receive_calls[WIRE_CALLS / 64];
	unsigned long long send_calls[WIRE_CALLS / 64];
	unsigned long long name_calls[WIRE_CALLS / 64];
	unsigned long long thread_sleep_ns;	/* shorter sleeps for other threads are left out */
	unsigned int devices[WIRE_MAX_DEVICES]; /* the only ones to watch */
	unsigned int device_count;		/* 0: all */
	unsigned int page_shift;
	unsigned int stacks_per_second;		  /* on each CPU */
	unsigned int wait_stacks_per_second;	  /* on each CPU */
	unsigned int wait_user_stacks_per_second; /* on each CPU */
	unsigned int chains_per_second;		  /* on each CPU */
	int futex_call;				  /* number of futex(2) */
	unsigned int has_fuse;			  /* a FUSE file system is mounted */
	unsigned char rq_events_have_queue;  /* request events have the queue as first argument */
	unsigned char bio_events_have_queue; /* bio events, too */
	unsigned char merge_events_have_request; /* merges: queue and request come before the bio */
	unsigned char user_stacks;
	unsigned char uring_result;	/* enum wire_uring_result */
	unsigned char each_open;	/* every open is sent, not only counted */
	unsigned char switch_has_state; /* sched_switch has the previous task's state */
	unsigned char preemptible;	/* programs on tracepoints are preemptible */
	unsigned int calls_per_second;	/* single calls sent, on each CPU */
	unsigned int ring_bytes;	/* size of the ring buffer: a power of two */
	unsigned int pairs_bits;	/* size of the table of requests in flight: bits */
	unsigned int counts_requests;	/* the program at completions counts exactly, too */
	/* What each system call does to files: enum wire_use_kind | enum wire_shape. */
	unsigned char call_uses[WIRE_CALLS];
	unsigned char uring_uses[WIRE_URING_CODES];
};

/* How a process uses a file: the indices of `wire_use.calls`. */
enum wire_use_kind {
	USE_NONE,
	USE_READ,
	USE_WRITE,
	USE_FSYNC,
	USE_OPEN,
	USE_STAT,
	USE_SCAN,
	USE_UNLINK,
	USE_RENAME,
	/* Not calls of their own: */
	USE_CREATE, /* opens that made the file */
	USE_FAILED, /* calls that failed; not counted elsewhere */
	USE_FAULT,  /* page faults on a mapping of it */
	USE_TIMED,  /* calls with a known duration */
	USE_KINDS = 16,
};

/* Which arguments of a call identify the file. */
enum wire_shape {
	SHAPE_FD = 0,	    /* the first is a descriptor */
	SHAPE_PATH = 16,    /* the first is a path */
	SHAPE_PATH_AT = 32, /* a directory's descriptor and a path */
	SHAPE_TWO_PATHS = 48,
	SHAPE_TWO_AT = 64,  /* a directory's descriptor and a path, twice */
	SHAPE_SEND = 80,    /* written to the first descriptor, read from the second */
	SHAPE_COPY = 96,    /* read from the first, written to the third */
	SHAPE_SUBMIT = 112, /* the third is an array of iocbs */
	SHAPE_MASK = 0xf0,
};

/* Durations of calls are summed up by group. */
enum wire_use_time { TIME_READ, TIME_WRITE, TIME_FSYNC, TIME_OTHER, TIME_GROUPS };

/* How this kernel reports the result of an io_uring request. */
enum wire_uring_result {
	URING_UNKNOWN,	/* without the request (until 5.16) */
	URING_ARGUMENT, /* as an argument */
	URING_CQE,	/* in the completion entry (from 6.13 on) */
};

/* Flags of a request. */
enum wire_request_flag {
	REQUEST_BEGUN_BEFORE = 1,   /* first seen after its queueing */
	REQUEST_KERNEL_MADE = 2,    /* has no bio: made by the flush machinery or a driver */
	REQUEST_BIO_BASED = 4,	    /* a bio of a bio-based device */
	REQUEST_FLUSH_SHARED = 8,   /* its issue time is that of the flush request that served it */
	REQUEST_FAULT = 16,	    /* queued while a page fault was handled */
	REQUEST_KERNEL_THREAD = 32, /* queued by a kernel thread */
	REQUEST_EXTENTS = 64,	    /* its pages are not contiguous in the file */
	REQUEST_WORKER_FOR = 128,   /* queued by a worker; tgid and tid of whom it worked for */
	REQUEST_FLUSHED = 256,	    /* the flush machinery may hold it before or after the device */
	REQUEST_AT_DEVICE = 512,    /* in flight according to the kernel when the watch ended */
	REQUEST_NOTED = 1024,	    /* kernel side only: the first of two programs saw it queued */
	REQUEST_SLOW = 2048,	    /* recorded when it completed, because it was slow */
};

/* Identifies an inode for the duration of a watch. */
struct wire_inode {
	unsigned long long address;
	unsigned long long number;
	unsigned int device; /* the kernel's dev_t of the superblock */
	unsigned int generation;
};

/* A contiguous byte range of one file. */
struct wire_part {
	struct wire_inode inode;
	unsigned long long offset; /* bytes from the file's start; ~0 if not known */
	unsigned int bytes;
	unsigned int found; /* enum wire_found */
};

/*
 * A request. The in-flight table has the same structure as its value, so that completing a request
 * is one copy. Times are CLOCK_MONOTONIC ns, 0 if it did not happen.
 */
struct wire_request {
	unsigned int kind;
	unsigned int parts; /* wire_parts after the first, appended to the record */
	unsigned long long id;
	unsigned long long parent; /* id of the request that this one serves; 0: none */
	unsigned long long queue_ns;
	unsigned long long get_ns;
	unsigned long long insert_ns;
	unsigned long long issue_ns;
	unsigned long long complete_ns;
	unsigned long long sector;
	unsigned long long cgroup;
	unsigned int bytes;
	unsigned int operation; /* cmd_flags */
	unsigned int device;	/* dev_t of the whole disk */
	int status;		/* errno or blk_status_t, as in the kernel's tracepoint */
	unsigned int tgid;
	unsigned int tid;
	unsigned int stack;	   /* the sample's number; 0: none */
	unsigned int stack_weight; /* requests that the sample stands for */
	int system_call;
	unsigned int cpu;
	unsigned int flags; /* enum wire_request_flag */
	unsigned short requeues;
	unsigned short bios;
	unsigned int weight; /* it stands for so many requests; 0: for itself */
	unsigned int last_padding;
	struct wire_part part;
};

enum wire_scan_mode {
	SCAN_ADD,      /* add unknown requests */
	SCAN_ADD_SLOW, /* add those that were skipped, if they have been in flight for long */
	SCAN_MARK,     /* mark known ones */
};

/* Arguments of the program that checks requests in flight. */
struct wire_scan {
	unsigned long long anchor; /* a file descriptor on any block device */
	unsigned long long device; /* of the requests */
	unsigned long long queue;  /* which of its hardware queues */
	unsigned long long first;  /* first tag; WIRE_TAGS_AT_ONCE are checked */
	unsigned long long mode;   /* enum wire_scan_mode */
};

/* A request in flight. */
struct wire_pending {
	unsigned long long queue_ns;
	unsigned long long issue_ns; /* 0: not issued yet */
	unsigned int device;
	unsigned int place; /* of its pair in the table */
};

/* A file that a process holds open for writing. */
struct wire_writer {
	struct wire_inode inode;
	unsigned int tgid;
	unsigned int padding;
	char process[WIRE_COMM_LEN];
};

enum wire_wait_flag {
	WAIT_IOWAIT = 1, /* task->in_iowait */
	WAIT_UNINTERRUPTIBLE = 2,
	WAIT_KERNEL_THREAD = 4,
	WAIT_FOR_OWN = 16,     /* interruptible, in a system call that waits for the caller's I/O */
	WAIT_BEGUN_BEFORE = 8, /* it was already asleep when the watch began */
	WAIT_FOR_THREAD = 32,  /* woken by a thread that waited for storage meanwhile */
	WAIT_FOR_SERVER = 64,  /* interruptible, perhaps for the server of a FUSE file system */
	WAIT_LISTED = 128,     /* not chosen to be recorded, and listed because it lasted */
	WAIT_FOR_FILE_LOCK = 256, /* for a lock of a file; `holder` is a process */
	WAIT_POLLED = 512,	  /* for a lock that was asked for again and again */
};

/*
 * A thread that is off CPU, perhaps because of storage; also the value of the map of sleepers.
 * Times are CLOCK_MONOTONIC ns, 0 if it did not happen.
 */
struct wire_wait {
	unsigned int kind;
	unsigned int flags; /* enum wire_wait_flag */
	unsigned int tgid;
	unsigned int tid;
	unsigned long long start_ns;
	unsigned long long wake_ns;
	unsigned long long end_ns;
	unsigned long long
		request; /* id of the last one completed on the waking CPU meanwhile; 0: none */
	unsigned long long cpu_wait_ns; /* total run queue time before the sleep; 0: not counted */
	struct wire_inode inode;    /* the file in its system call's arguments; address 0: none */
	unsigned long long address; /* of the futex that it sleeps on; 0: none */
	int system_call;
	int stack;	     /* id in the stack maps; negative: none */
	unsigned int waker;  /* the thread that woke it; 0: an interrupt, or not woken yet */
	int user_stack;	     /* id in the map of user stacks; negative: none */
	unsigned int weight; /* it stands for so many waits; 0: for itself */
	unsigned int holder; /* the thread that holds the lock that it waits for; 0: not known */
};

/*
 * Use of one file, or of the files in one directory, by one process since the last read. The first
 * two words are the key.
 */
struct wire_use {
	unsigned long long file_key; /* an inode's address, or which wire_directory; 0: neither */
	unsigned long long process_key; /* low half: the process; above what tells inodes apart */
	struct wire_inode inode;	/* address 0: a directory by name */
	unsigned long long first_ns;
	unsigned long long created_ns; /* when an open created it; 0: not created */
	unsigned long long read_bytes;
	unsigned long long write_bytes;
	unsigned long long fault_bytes;
	unsigned long long times[TIME_GROUPS]; /* ns in calls with a known duration */
	unsigned int calls[USE_KINDS];
	unsigned int epoch; /* of a slot: entries of another epoch have been read */
	unsigned int padding;
};

/* The files that a CPU's programs use currently, indexed by a hash of the key. */
struct wire_slots {
	struct wire_use of[2][WIRE_USE_SLOTS]; /* one array per table */
};

/* Run-time settings of the file programs. */
struct wire_control {
	unsigned int epoch; /* current epoch: in odd ones the second table is filled */
	unsigned int timed; /* whether the beginning of calls is traced, too */
};

/* A directory as named by a program: `text` relative to `base`. Sent when first seen. */
struct wire_directory {
	unsigned int kind;
	unsigned int bytes; /* of `text` */
	unsigned long long place;
	struct wire_inode base; /* the root, working or given directory */
	char text[WIRE_PATH_LEN];
};

/* A single call that names a file. */
struct wire_call {
	unsigned int kind;
	unsigned int use; /* enum wire_use_kind */
	unsigned int tgid;
	unsigned int tid;
	unsigned long long time_ns;
	unsigned long long duration_ns; /* 0: not known */
	struct wire_inode inode;	/* of a successful open; address 0: none */
	struct wire_inode base;
	int result;
	unsigned int flags;  /* of an open, as passed by the program */
	unsigned int second; /* second of two paths */
	unsigned int bytes;  /* of `text` */
	char text[WIRE_PATH_LEN];
};

/* The request that a CPU completed last. */
struct wire_ended {
	unsigned long long request;
	unsigned long long time_ns;
};

/* A thread that sleeps when the watch begins. */
struct wire_sleeper {
	struct wire_wait wait;
	unsigned long long frames[WIRE_WAIT_FRAMES];
};

/*
 * Two slots of the in-flight table. Their keys are adjacent, so that checking both costs one cache
 * line.
 */
struct wire_pair {
	unsigned long long keys[2]; /* 0: free */
	struct wire_request requests[2];
};

/* The dirtiers of the pages that a request writes; precedes the request. */
struct wire_owners {
	unsigned int kind;
	unsigned int other_tgid; /* one of the others, if all have the same process name; else 0 */
	unsigned long long request;
	struct wire_inode inode;
	unsigned long long offset;	/* of the part */
	unsigned long long other_bytes; /* dirtied by more processes than are kept */
	unsigned long long theirs;	/* bytes of the part that these dirtied in total */
	unsigned long long owners[WIRE_MAX_OWNERS]; /* see WIRE_OWNER_BITS */
};

/* A thread, when it is first seen. */
struct wire_task {
	unsigned int kind;
	unsigned int tgid;
	unsigned int tid;
	unsigned int parent;
	unsigned int user;
	unsigned short io_priority;  /* by ioprio_set(2); 0 if never set */
	unsigned short policy;	     /* SCHED_IDLE ... */
	unsigned long long start_ns; /* of the process, boot-time clock */
	unsigned long long cgroup;
	struct wire_inode executable;
	char process[WIRE_COMM_LEN];
	char thread[WIRE_COMM_LEN];
};

/* Names from the leaf up to the root of the file system or hierarchy. */
struct wire_names {
	unsigned int count;
	unsigned int bytes;
	unsigned int cut; /* truncated */
	unsigned int padding;
	char text[WIRE_NAMES_LEN];
};

/* A file, when it is first seen. */
struct wire_file {
	unsigned int kind;
	unsigned short deleted;
	unsigned short mode; /* i_mode */
	struct wire_inode inode;
	unsigned long long magic; /* of the superblock */
	struct wire_names names;
};

/* A cgroup, when it is first seen. */
struct wire_cgroup {
	unsigned int kind;
	unsigned int padding;
	unsigned long long id;
	struct wire_names names;
};

/* A sampled stack. The arrays of frames are stored one after the other, without gaps. */
struct wire_stack {
	unsigned int kind;
	unsigned int sample;
	unsigned int tgid;
	unsigned int tid;
	unsigned int kernel_frames;
	unsigned int user_frames;
	unsigned long long frames[WIRE_KERNEL_FRAMES + WIRE_USER_FRAMES];
};

/* Bytes added to and removed from the page cache, on one CPU. */
struct wire_page_cache {
	unsigned long long added_bytes;
	unsigned long long removed_bytes;
};

/* A single block event, as in blktrace. */
struct wire_event {
	unsigned int kind;
	unsigned int action; /* enum wire_event_action */
	unsigned long long time_ns;
	unsigned long long sector;
	unsigned long long payload; /* X: new sector; U: requests; A: sector before */
	unsigned int sequence;
	unsigned int bytes;
	unsigned int operation; /* cmd_flags */
	unsigned int device;
	unsigned int payload_device; /* A: device before */
	unsigned int tid;
	unsigned int cpu;
	int error; /* errno or blk_status_t, as in the kernel */
	char comm[WIRE_COMM_LEN];
};

#include "wire_sleeps.h"

#endif
