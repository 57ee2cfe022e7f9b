/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Locks of files (flock, fcntl) that another process holds. A thread that sleeps for one has its
 * holder noted. A thread that asks without waiting, sleeps a little and asks again, as SQLite's busy
 * handler does, waits as well: from the first refusal until it gets the lock.
 *
 * What does not belong here: locks within the kernel (see lock_holders.bpf.h).
 */
#ifndef IOWHY_FILE_LOCKS_H
#define IOWHY_FILE_LOCKS_H

#include "compat_locks.bpf.h"
#include "thread_sleeps.bpf.h"
#include "file_of_bio.bpf.h"
#include "submitters.bpf.h"

#define LOCK_DEFERRED 1		    /* FILE_LOCK_DEFERRED */
#define LOCK_REFUSED  (-11)	    /* EAGAIN */
#define HELD_LOCKS    16	    /* locks of one file that are checked for the holder */
#define POLL_GAP_NS   1500000000ULL /* apt asks again after a second, SQLite after 0.1 s at most */
#define READ_LOCK     0		    /* F_RDLCK */
#define UNLOCK	      2		    /* F_UNLCK */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WIRE_LOCK_POLLS);
	__type(key, u32);
	__type(value, struct wire_lock_poll);
} lock_polls SEC(".maps");

/* A lock, as far as it decides who holds up whom. */
struct held_lock {
	u64 start;
	u64 end;
	u32 tgid;
	u32 type;
};

static __always_inline void read_lock(struct file_lock *lock, struct held_lock *held)
{
	held->start = READ(lock, fl_start);
	held->end = READ(lock, fl_end);
	held->tgid = lock_pid(lock);
	held->type = lock_type(lock);
}

/* The process that holds what `wanted` needs, among the first locks of a list; 0 if none does. */
static __noinline u32 holder_among(u64 list, struct held_lock *wanted)
{
	struct list_head *head = (struct list_head *)list;
	u64 place = number_of(READ(head, next));
	struct held_lock held;
	u32 i;

	if (!wanted)
		return 0;
	for (i = 0; i < HELD_LOCKS && place && place != list; i++) {
		read_lock(lock_of_link(place), &held);
		if (held.tgid != wanted->tgid && held.start <= wanted->end &&
		    wanted->start <= held.end &&
		    (held.type != READ_LOCK || wanted->type != READ_LOCK))
			return held.tgid;
		place = number_of(READ((struct list_head *)place, next));
	}
	return 0;
}

static __always_inline u32 holder_of_lock(struct inode *inode, struct file_lock *request,
					  bool is_flock)
{
	struct file_lock_context *context = READ(inode, i_flctx);
	struct held_lock wanted;

	if (!context)
		return 0;
	read_lock(request, &wanted);
	return holder_among(number_of(context) +
				    (is_flock ? bpf_core_field_offset(context->flc_flock)
					      : bpf_core_field_offset(context->flc_posix)),
			    &wanted);
}

/* Sends a wait that consisted of refusals, from the first until `now`. */
static __always_inline void send_polled(struct wire_lock_poll *poll, u32 tid, u64 now)
{
	struct wire_wait wait = { .kind = WIRE_WAIT,
				  .flags = WAIT_FOR_THREAD | WAIT_FOR_FILE_LOCK | WAIT_POLLED,
				  .stack = -1,
				  .user_stack = -1 };

	if (now - poll->since_ns < settings.thread_sleep_ns)
		return;
	if (!is_allowed(FOR_CHAINS, settings.chains_per_second, now)) {
		count(COUNT_CHAINS_SKIPPED);
		return;
	}
	wait.tgid = poll->tgid;
	wait.tid = tid;
	wait.start_ns = poll->since_ns;
	wait.wake_ns = now;
	wait.end_ns = now;
	wait.system_call = poll->system_call;
	wait.inode = poll->inode;
	wait.holder = poll->holder;
	see_task(number_of(current_task()), ROOM_SUBMIT);
	emit(&wait, sizeof(wait), COUNT_RING_FULL_WAIT);
}

static __always_inline void begin_poll(struct inode *inode, struct file_lock *request,
				       struct task_struct *task, u32 holder, u64 now)
{
	struct wire_lock_poll poll = {};
	u32 tid = READ(task, pid);

	if (!identify(inode, &poll.inode))
		return;
	poll.since_ns = poll.last_ns = now;
	poll.start = READ(request, fl_start);
	poll.holder = holder;
	poll.tgid = READ(task, tgid);
	poll.tid = tid;
	poll.system_call = system_call_of(user_registers(task));
	bpf_map_update_elem(&lock_polls, &tid, &poll, BPF_ANY);
	see_file(number_of(inode), number_of(READ(lock_file(request), f_path.dentry)), ROOM_SUBMIT);
}

/* The lock was refused: the thread may sleep a little, and ask again. */
static __always_inline void refuse_lock(struct inode *inode, struct file_lock *request,
					bool is_flock)
{
	struct task_struct *task = current_task();
	u32 tid = READ(task, pid), holder;
	u64 now = bpf_ktime_get_ns();
	struct wire_lock_poll *poll;

	holder = holder_of_lock(inode, request, is_flock);
	poll = bpf_map_lookup_elem(&lock_polls, &tid);
	if (poll && now - poll->last_ns <= POLL_GAP_NS && poll->inode.address == number_of(inode)) {
		poll->last_ns = now;
		poll->start = READ(request, fl_start);
		if (holder)
			poll->holder = holder;
		return;
	}
	/* It gave up the other one. */
	if (poll)
		send_polled(poll, tid, poll->last_ns);
	begin_poll(inode, request, task, holder, now);
}

/* The range that was refused is locked; SQLite takes others of the file before each attempt. */
static __always_inline void grant_lock(struct inode *inode, struct file_lock *request)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct wire_lock_poll *poll = bpf_map_lookup_elem(&lock_polls, &tid);
	u64 now;

	if (!poll || poll->inode.address != number_of(inode) ||
	    poll->start != READ(request, fl_start))
		return;
	now = bpf_ktime_get_ns();
	send_polled(poll, tid, now - poll->last_ns <= POLL_GAP_NS ? now : poll->last_ns);
	bpf_map_delete_elem(&lock_polls, &tid);
}

/* The thread will sleep until the lock is free: whose it is. */
static __always_inline void defer_lock(struct file_lock *request)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	struct wire_thread *thread = thread_of(tid);

	if (!thread)
		return;
	if (thread->tid != tid)
		take_thread(thread, tid);
	thread->holder = blocking_pid(request);
}

static __always_inline int see_lock(u64 *ctx, bool is_flock)
{
	struct inode *inode = (struct inode *)ARGUMENT(ctx, 0);
	struct file_lock *request = (struct file_lock *)ARGUMENT(ctx, 1);
	int result = (int)ARGUMENT(ctx, 2);

	/* Without chains, nobody asks. */
	if (!settings.chains_per_second)
		return 0;
	if (!result && lock_type(request) != UNLOCK)
		grant_lock(inode, request);
	else if (result == LOCK_DEFERRED)
		defer_lock(request);
	else if (result == LOCK_REFUSED)
		refuse_lock(inode, request, is_flock);
	return 0;
}

#endif
