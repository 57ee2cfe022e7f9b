/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The wire: every record that a BPF program sends to user space, and every list that both sides
 * enumerate. Plain fixed-width integers and explicit padding only; build.rs generates the Rust
 * side of it. Kernel types do not belong here.
 */
#ifndef IOWHY_WIRE_H
#define IOWHY_WIRE_H

#define WIRE_COMM_LEN	   16
#define WIRE_NAMES_LEN	   4096	 /* bytes of a path's components, leaf first, each ended by a NUL */
#define WIRE_NAMES_MAX	   48	 /* components */
#define WIRE_MAX_PARTS	   32	 /* files or extents distinguished in one request */
#define WIRE_DIRTY_INODES  16384 /* whose dirtiers are kept */
#define WIRE_MAX_OWNERS	   8	 /* dirtiers kept for an inode */
#define WIRE_OWNER_BITS	   40	 /* of a word for their bytes; above them is their process */
#define WIRE_KERNEL_FRAMES 48
#define WIRE_USER_FRAMES   64
#define WIRE_TAGS_AT_ONCE  256
#define WIRE_WAIT_FRAMES   32	 /* of a waiting thread's kernel stack */
#define WIRE_WAIT_STACKS   8192	 /* in each of the two maps of stacks */
#define WIRE_USER_STACKS   8192	 /* in the map of waiting threads' user stacks */
#define WIRE_PLACES	   65536 /* threads that are distinguished by the low bits of their number */
#define WIRE_CALLS	   512	 /* system calls that are distinguished */
#define WIRE_MAX_DEVICES   16	 /* devices that a watch can be limited to */
#define WIRE_PATH_LEN	   4096	 /* bytes of a path as a program gave it */
#define WIRE_USE_SLOTS	   64	 /* files that each CPU has at hand; a power of two */
#define WIRE_URING_CODES   256	 /* io_uring's operations: all that fit in their byte */

/* A task that is woken so soon after a completion, on its CPU, was woken by it. */
#define WIRE_ENDED_JUST_NOW_NS 20000

/* The kind stands first in every record. */
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
};

/* What BPF programs count on their own; user space reads the sums at the end. */
enum wire_counter {
	COUNT_RING_FULL_REQUEST, /* finished requests dropped because the ring buffer was full */
	COUNT_RING_FULL_DETAIL,	 /* names, tasks, owners or stacks dropped, ring full */
	COUNT_RING_FULL_EVENT,	 /* single events dropped because the ring buffer was full */
	COUNT_MAP_FULL,	    /* bios or requests without a slot in the table of those in flight */
	COUNT_END_MISSED,   /* requests whose address was used again before an end was seen */
	COUNT_STACK_FAILED, /* stacks that the kernel could not take */
	COUNT_PARTS_AGGREGATED,	   /* requests of more files or extents than are distinguished */
	COUNT_CHAIN_CUT,	   /* requests of more bios than are looked at */
	COUNT_PATH_CUT,		   /* paths that are too deep or too long */
	COUNT_RING_FULL_WAIT,	   /* waits dropped because the ring buffer was full */
	COUNT_SLEEPERS_FULL,	   /* waits beyond those that are followed at once */
	COUNT_WAIT_ENDS,	   /* waits whose end was not seen */
	COUNT_WAIT_STACKS,	   /* waits whose stack could not be kept */
	COUNT_CHAINS_SKIPPED,	   /* waits for other threads beyond those told a second */
	COUNT_DIRTIERS_AGGREGATED, /* dirtied pages charged to "others" of several names of an inode */
	COUNT_USES_FULL,	   /* calls on files beyond those distinguished in a second */
	COUNT_USES_COMPAT,	   /* calls of 32-bit programs, which have numbers of their own */
	COUNT_RING_FULL_CALL,	   /* single calls dropped, ring full */
	COUNT_SUBMITTED_CUT,	   /* io_submit calls of more than are looked at */
	COUNT_CALLS_LEFT_OUT,	   /* single calls beyond those sent in a second */
	COUNT_PATH_UNREAD,	   /* calls whose path could not be read */
	COUNT_ENDED_IN_PARTS,	   /* requests of which a part ended before the rest */
	COUNT_RETRIED,		   /* no loss: bios that must not wait and are submitted again */
	COUNT_DIRTY_INODES,	   /* no loss: inodes whose dirtiers were kept */
	COUNT_COUNTERS,
};

/*
 * Functions that end a bio, by which its purpose is known. X(id, kernel symbol): user space looks
 * the symbol up and hands the address over; one that this kernel lacks stays 0 and never matches.
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

/* What other kernels call the same. No kernel has both. */
#define END_IO_ALIASES(X)                                              \
	X(END_IO_SUBMIT_WAIT, bio_wait_end_io)	       /* 7.x */       \
	X(END_IO_BTRFS, btrfs_end_bio)		       /* until 6.0 */ \
	X(END_IO_IOMAP_WRITE, iomap_writepage_end_bio) /* until 6.15 */

/*
 * Functions whose names other modules have too, by their own module: dm_flakey has a clone_endio since
 * 1d9a94389853, 6.5. Where it is no module, the plain name finds the kernel's own first.
 */
#define END_IO_MODULES(X) X(END_IO_DM, dm_mod, clone_endio)

#define END_IO_ID(id, symbol) id,
enum wire_end_io { END_IO_UNKNOWN, END_IO_LIST(END_IO_ID) END_IO_COUNT };
#undef END_IO_ID

/* Where those functions are; 0 where this kernel has none of that name, or hides it. */
struct wire_symbols {
	unsigned long long end_io[END_IO_COUNT];
	unsigned long long tracepoint_srcu; /* what tracepoints are guarded by from 7.x on */
};

/* How the file of a part was found, or why there is none. */
enum wire_found {
	FOUND_NOT,	 /* nothing that says so */
	FOUND_DIRECT,	 /* the open file of a direct I/O */
	FOUND_PAGE,	 /* the page cache page that is read or written */
	FOUND_BTRFS,	 /* the inode that btrfs keeps with its bio */
	FOUND_RAW,	 /* direct I/O on the block device itself */
	FOUND_RAW_ANON,	 /* user memory, waited for on the spot: the block device itself, or swap */
	FOUND_BDEV_PAGE, /* a page of the block device's own cache */
	FOUND_METADATA,	 /* marked or owned by a file system as its own blocks */
	FOUND_JOURNAL,	 /* owned by a journal */
	FOUND_SWAP,	 /* anonymous memory */
	FOUND_NO_DATA,	 /* flush, discard, zeroing: carries no pages */
	FOUND_NO_MAPPING,  /* a page that belongs to no file */
	FOUND_ANONYMOUS,   /* anonymous memory under an unknown owner */
	FOUND_PASSTHROUGH, /* a driver's command */
	FOUND_BELOW, /* pages that are not one run of their file: the request below has them */
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

/* What user space sets before a program is loaded; the verifier sees constants. */
struct wire_settings {
	unsigned long long end_io[END_IO_COUNT]; /* addresses; 0 where this kernel has none */
	/*
	 * Bits: calls whose first argument is a file, those that sleep for the caller's I/O, those
	 * that sleep until another thread does something, and those on names of files.
	 */
	unsigned long long file_calls[WIRE_CALLS / 64];
	unsigned long long sleep_calls[WIRE_CALLS / 64];
	unsigned long long thread_calls[WIRE_CALLS / 64];
	unsigned long long name_calls[WIRE_CALLS / 64];
	unsigned long long
		thread_sleep_ns; /* sleeps for other threads that are shorter are left out */
	unsigned int devices[WIRE_MAX_DEVICES]; /* the only ones to watch */
	unsigned int device_count;		/* 0: all */
	unsigned int page_shift;
	unsigned int stacks_per_second;		  /* on each CPU */
	unsigned int wait_stacks_per_second;	  /* on each CPU */
	unsigned int wait_user_stacks_per_second; /* on each CPU */
	unsigned int chains_per_second;		  /* on each CPU */
	int futex_call;				  /* its number */
	unsigned int has_fuse;			  /* a FUSE file system is mounted */
	unsigned char rq_events_have_queue;  /* the first argument of request events is the queue */
	unsigned char bio_events_have_queue; /* the same of bio events */
	unsigned char
		merge_events_have_request; /* merges: queue and request stand before the bio */
	unsigned char user_stacks;
	unsigned char uring_result;	/* enum wire_uring_result */
	unsigned char each_open;	/* every open is sent, not only counted */
	unsigned char switch_has_state; /* sched_switch tells in what state a task sleeps */
	unsigned char preemptible;	/* programs on tracepoints can be preempted */
	unsigned int calls_per_second;	/* single calls sent, on each CPU */
	unsigned int last_padding;
	/* What each system call does to files: enum wire_use_kind | enum wire_shape. */
	unsigned char call_uses[WIRE_CALLS];
	unsigned char uring_uses[WIRE_URING_CODES];
};

/* How a process uses a file: the place of each count in `wire_use.calls`. */
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
	/* No calls of their own: */
	USE_CREATE, /* opens that made the file */
	USE_FAILED, /* calls that failed; they count nowhere else */
	USE_FAULT,  /* page faults on a mapping of it */
	USE_TIMED,  /* calls whose time is known */
	USE_KINDS = 16,
};

/* Where a call's arguments say which file it is about. */
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

/* Times of calls are added up in groups. */
enum wire_use_time { TIME_READ, TIME_WRITE, TIME_FSYNC, TIME_OTHER, TIME_GROUPS };

/* How this kernel tells the result of an io_uring request. */
enum wire_uring_result {
	URING_UNKNOWN,	/* without the request (until 5.16) */
	URING_ARGUMENT, /* as an argument */
	URING_CQE,	/* in the completion entry (from 6.13 on) */
};

/* Flags of a request. */
enum wire_request_flag {
	REQUEST_BEGUN_BEFORE = 1,   /* first seen after its queueing */
	REQUEST_KERNEL_MADE = 2,    /* has no bio: made by the flush machinery or a driver */
	REQUEST_BIO_BASED = 4,	    /* a bio of a device that has no requests */
	REQUEST_FLUSH_SHARED = 8,   /* its issue is that of the flush request that served it */
	REQUEST_FAULT = 16,	    /* queued while a page fault was handled */
	REQUEST_KERNEL_THREAD = 32, /* queued by a kernel thread */
	REQUEST_EXTENTS = 64,	    /* its pages are not one run of the file */
	REQUEST_WORKER_FOR = 128,   /* queued by a worker; tgid and tid are those it worked for */
	REQUEST_FLUSHED = 256,	    /* the flush machinery may hold it before or after the device */
	REQUEST_AT_DEVICE = 512,    /* the kernel held it to be in flight when the watch ended */
	REQUEST_NOTED = 1024,	    /* within the kernel: the first of two programs saw it queued */
};

/* An inode, as far as it can be distinguished for the length of a watch. */
struct wire_inode {
	unsigned long long address;
	unsigned long long number;
	unsigned int device; /* the kernel's dev_t of the superblock */
	unsigned int generation;
};

/* A run of bytes of one file. */
struct wire_part {
	struct wire_inode inode;
	unsigned long long offset; /* bytes from the file's start; ~0 where not known */
	unsigned int bytes;
	unsigned int found; /* enum wire_found */
};

/*
 * A request. The same structure is the value of the map of what is in flight, so that finishing
 * one is a copy. Times are CLOCK_MONOTONIC ns, 0 where it did not happen.
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
	int status;		/* errno or blk_status_t, as the kernel's tracepoint gives it */
	unsigned int tgid;
	unsigned int tid;
	unsigned int stack;  /* the sample's number; 0: none */
	unsigned int weight; /* requests that the sample stands for */
	int system_call;
	unsigned int cpu;
	unsigned int flags; /* enum wire_request_flag */
	unsigned short requeues;
	unsigned short bios;
	struct wire_part part;
};

/* What a look at requests in flight is to look at, and what for: the program's arguments. */
struct wire_scan {
	unsigned long long anchor; /* a descriptor of a file on any block device */
	unsigned long long device; /* of the requests */
	unsigned long long queue;  /* which of its hardware queues */
	unsigned long long first;  /* tag to begin at; WIRE_TAGS_AT_ONCE are looked at */
	unsigned long long at_end; /* 0: add requests that are not known; 1: mark those that are */
};

/* A request that is in flight. */
struct wire_pending {
	unsigned long long queue_ns;
	unsigned long long issue_ns; /* 0: not issued yet */
	unsigned int device;
	unsigned int padding;
};

/* A file that a process holds open for writing. */
struct wire_writer {
	struct wire_inode inode;
	unsigned int tgid;
	unsigned int padding;
	char process[WIRE_COMM_LEN];
};

enum wire_wait_flag {
	WAIT_IOWAIT = 1, /* the kernel calls it a wait for I/O */
	WAIT_UNINTERRUPTIBLE = 2,
	WAIT_KERNEL_THREAD = 4,
	WAIT_FOR_OWN = 16,     /* interruptibly, in a system call that waits for the caller's I/O */
	WAIT_BEGUN_BEFORE = 8, /* it slept already when the watch began */
	WAIT_FOR_THREAD = 32,  /* until a thread woke it that waited for storage meanwhile */
	WAIT_FOR_SERVER = 64,  /* interruptibly, perhaps for the server of a FUSE file system */
};

/*
 * A thread that is off CPU, perhaps because of storage; also the value of the map of sleepers.
 * Times are CLOCK_MONOTONIC ns, 0 where it did not happen.
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
		request; /* id of the last that completed on the waking CPU meanwhile; 0: none */
	unsigned long long
		cpu_wait_ns;	    /* how long it had waited for a CPU in all; 0: not counted */
	struct wire_inode inode;    /* the file that its system call was given; address 0: none */
	unsigned long long address; /* of the futex that it sleeps for; 0: none */
	int system_call;
	int stack;	    /* in the maps of stacks; negative: none was taken */
	unsigned int waker; /* the thread that woke it; 0: an interrupt did, or nobody yet */
	int user_stack;	    /* in the map of user stacks; negative: none was taken */
};

/*
 * What is known of a thread by the low bits of its number: who comes later takes the place, and what
 * was known of the other is forgotten. Times as above.
 */
struct wire_place {
	unsigned int sleepers; /* threads here that sleep for storage */
	unsigned int tid;      /* whose place it is */
	/* Its last sleep in a call that sleeps until another thread does something. */
	unsigned int asleep;
	unsigned int flags; /* WAIT_BEGUN_BEFORE */
	int system_call;
	int user_stack;
	unsigned long long address; /* the call's first argument: the futex, the descriptor */
	unsigned long long since_ns;
	unsigned long long woken_ns;
	/* When it last ended a wait for storage, or for a thread that waited for storage. */
	unsigned long long storage_wait_ns;
	unsigned int is_chained; /* it waited for such a thread before */
	unsigned int is_timed;	 /* a futex with a time limit */
};

/* A thread that sleeps in such a call when the watch ends. */
struct wire_thread_sleeper {
	struct wire_wait wait;
	unsigned long long arguments[4];
	unsigned long long instruction;
	unsigned long long stack_pointer;
	unsigned long long frame_pointer;
};

/*
 * What one process did with one file, or with what lies in one directory, since the last look. The
 * first two words are its key.
 */
struct wire_use {
	unsigned long long file_key; /* an inode's address, or which wire_directory; 0: neither */
	unsigned long long process_key; /* low half: the process; above what tells inodes apart */
	struct wire_inode inode;	/* address 0: a directory by name */
	unsigned long long first_ns;
	unsigned long long created_ns; /* when an open made it; 0: none did */
	unsigned long long read_bytes;
	unsigned long long write_bytes;
	unsigned long long fault_bytes;
	unsigned long long times[TIME_GROUPS]; /* ns within calls whose time is known */
	unsigned int calls[USE_KINDS];
	unsigned int epoch; /* of a slot: what it holds of another was taken already */
	unsigned int padding;
};

/* The files that a CPU's programs use right now; each by a hash of its key. */
struct wire_slots {
	unsigned long long calls_made;	       /* all system calls so far */
	struct wire_use of[2][WIRE_USE_SLOTS]; /* for each of the two tables */
};

/* What user space tells the programs of files while they run. */
struct wire_control {
	unsigned int epoch; /* which second: in odd ones the second table is filled */
	unsigned int timed; /* whether calls are seen when they begin, too */
};

/* A directory as a program named it: `text` from `base` on. Sent when first seen. */
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
	struct wire_inode inode;	/* of an open that succeeded; address 0: none */
	struct wire_inode base;
	int result;
	unsigned int flags;  /* of an open, as the program gave them */
	unsigned int second; /* of two paths the second */
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
 * Two places in the table of what is in flight. Their keys stand side by side, so that a look at
 * both costs one cache line.
 */
struct wire_pair {
	unsigned long long keys[2]; /* 0: free */
	struct wire_request requests[2];
};

/* Who made the pages dirty that a request writes; precedes the request. */
struct wire_owners {
	unsigned int kind;
	unsigned int other_tgid; /* one of the others, where all have its process's name; else 0 */
	unsigned long long request;
	struct wire_inode inode;
	unsigned long long offset;	/* of the part */
	unsigned long long other_bytes; /* dirtied by more processes than are kept */
	unsigned long long theirs;	/* bytes of the part that all of these dirtied */
	unsigned long long owners[WIRE_MAX_OWNERS]; /* see WIRE_OWNER_BITS */
};

/* A thread, when it is first seen. */
struct wire_task {
	unsigned int kind;
	unsigned int tgid;
	unsigned int tid;
	unsigned int parent;
	unsigned int user;
	unsigned int kernel_thread;
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
	unsigned int cut; /* not all fitted */
	unsigned int padding;
	char text[WIRE_NAMES_LEN];
};

/* A file, when it is first seen. */
struct wire_file {
	unsigned int kind;
	unsigned short deleted;
	unsigned short mode; /* i_mode: what it is */
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

/* A sampled stack. The frames are stored one array after the other, as long as they are. */
struct wire_stack {
	unsigned int kind;
	unsigned int sample;
	unsigned int tgid;
	unsigned int tid;
	unsigned int kernel_frames;
	unsigned int user_frames;
	unsigned long long frames[WIRE_KERNEL_FRAMES + WIRE_USER_FRAMES];
};

/* What came into the page cache and left it, on one CPU. */
struct wire_page_cache {
	unsigned long long added_bytes;
	unsigned long long removed_bytes;
};

/* A single block event, as blktrace has it. */
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
	int error; /* errno or blk_status_t, as the kernel gives it */
	char comm[WIRE_COMM_LEN];
};

#endif
