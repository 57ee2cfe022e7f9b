/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The part of the wire format about sleeps for other threads, of which a few words are kept for each
 * thread. Included by wire.h, whose rules hold here too.
 */
#ifndef IOWHY_WIRE_SLEEPS_H
#define IOWHY_WIRE_SLEEPS_H

#define WIRE_LOCK_POLLS 1024 /* threads that ask for a file's lock again and again */

/* A lock of a file that a thread asks for again and again. */
struct wire_lock_poll {
	unsigned long long since_ns; /* the first refusal */
	unsigned long long last_ns;  /* the latest one */
	unsigned long long start;    /* of the range that was refused last, in the file */
	struct wire_inode inode;
	unsigned int tgid;
	unsigned int tid;
	unsigned int holder; /* the process that holds it; 0: not known */
	int system_call;
};

/*
 * Waits for storage of one thread, each round of which ended in a sleep for a thread of the same
 * process that worked all the while: the round would not have ended earlier without them.
 */
struct wire_slack {
	unsigned int kind;
	unsigned int tgid;
	unsigned int tid;
	unsigned int last_padding;
	unsigned long long time_ns;
	unsigned long long hidden_ns;
	unsigned long long slept_ns; /* those sleeps */
};

/* What a thread sleeps in, of which only a few words are kept. */
enum wire_sleep {
	SLEEP_NONE,
	SLEEP_FOR_THREAD, /* a call that ends when another thread does something */
	SLEEP_SKIPPED,	  /* a wait for storage that was not chosen to be recorded */
};

/*
 * State of a thread, in a slot selected by the low bits of its tid: on a collision the later thread
 * replaces the state of the other. Times as above.
 */
struct wire_thread {
	unsigned int sleepers; /* threads of this slot that sleep for storage */
	unsigned int tid;      /* the thread that the state is of */
	/* Its last sleep of those that are not in the map of sleepers. */
	unsigned int asleep; /* enum wire_sleep */
	unsigned int flags;  /* enum wire_wait_flag */
	int system_call;
	int user_stack;
	unsigned long long address; /* the call's first argument: the futex, the descriptor */
	unsigned long long since_ns;
	unsigned long long woken_ns;
	unsigned long long ran_ns; /* the thread's CPU time when it began or went on */
	/* End of its last wait for storage, or for a thread that waited for storage. */
	unsigned long long storage_wait_ns;
	unsigned int is_chained;	  /* it has waited for such a thread before */
	unsigned int is_timed;		  /* a futex with a timeout */
	unsigned long long since_jiffies; /* the jiffy in which its sleep began */
	/* Of a skipped wait: what note_waker() finds. */
	unsigned long long request;
	unsigned int waker;
	unsigned int has_waited_long; /* its last wait for storage was a long one */
	unsigned int
		holder; /* the process that holds the file's lock that it sleeps for; 0: none */
	unsigned int last_padding;
	unsigned long long awake_ns;   /* end of its last long sleep for another thread */
	unsigned long long storage_ns; /* its waits for storage since then */
	unsigned long long
		hidden_ns;	     /* those that a sleep followed, not sent yet; see wire_slack */
	unsigned long long slack_ns; /* these sleeps */
	unsigned long long told_ns;  /* when it was sent last */
};

/* A thread that sleeps in such a call when the watch ends. */
struct wire_thread_sleeper {
	struct wire_wait wait;
	unsigned long long arguments[4];
	unsigned long long instruction;
	unsigned long long stack_pointer;
	unsigned long long frame_pointer;
};

#endif
