/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Sleeps because of storage that are recorded: which sleeps these are, and their records until they
 * end.
 *
 * What does not belong here: sleeps that are not chosen (see skipped_waits.bpf.h), and sleeps for
 * other threads (see thread_sleeps.bpf.h).
 */
#ifndef IOWHY_STORAGE_SLEEPS_H
#define IOWHY_STORAGE_SLEEPS_H

#include "lock_holders.bpf.h"
#include "thread_sleeps.bpf.h"

#define MAX_SLEEPERS	     8192
#define TASK_INTERRUPTIBLE   0x0001
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_NOLOAD	     0x0400

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SLEEPERS);
	__type(key, u32);
	__type(value, struct wire_wait);
} sleepers SEC(".maps");

static __always_inline struct wire_wait *find_sleeper(struct wire_thread *thread, u32 tid)
{
	return thread && thread->sleepers ? bpf_map_lookup_elem(&sleepers, &tid) : NULL;
}

/*
 * A global function, because the verifier then takes the result for any number, and does not follow
 * each combination of flags through the rest of the program.
 */
__noinline u32 flags_of_sleep(u32 in_iowait, u32 task_flags, u32 state, int system_call)
{
	u32 flags = 0;

	if (in_iowait)
		flags |= WAIT_IOWAIT;
	if ((state & TASK_UNINTERRUPTIBLE) && !(state & TASK_NOLOAD))
		flags |= WAIT_UNINTERRUPTIBLE;
	if ((state & TASK_INTERRUPTIBLE) && is_among(settings.sleep_calls, system_call))
		flags |= WAIT_FOR_OWN;
	if (flags && task_flags & PF_KTHREAD)
		flags |= WAIT_KERNEL_THREAD;
	return flags;
}

/* The wait's flags; 0 if it is not recorded. */
static __always_inline u32 kind_of_sleep(struct task_struct *task, u32 state, int system_call)
{
	return flags_of_sleep(BPF_CORE_READ_BITFIELD(task, in_iowait), task->flags, state,
			      system_call);
}

/* The end of its last sleep was not seen; it slept at least until it was woken. */
static __noinline void end_unseen(struct wire_thread *thread, u32 tid)
{
	struct wire_wait *wait = find_sleeper(thread, tid);

	if (!wait)
		return;
	count(COUNT_WAIT_ENDS);
	if (wait->wake_ns) {
		wait->end_ns = wait->wake_ns;
		emit(wait, sizeof(*wait), COUNT_RING_FULL_WAIT);
	}
	bpf_map_delete_elem(&sleepers, &tid);
	atomic_add(&thread->sleepers, -1);
}

/* A sleep that is recorded, of these flags. */
static __always_inline void record_sleep(void *ctx, struct task_struct *task, struct pt_regs *regs,
					 struct wire_thread *thread, u32 flags, u32 one_in,
					 int system_call)
{
	struct wire_wait wait = { .kind = WIRE_WAIT, .stack = -1, .user_stack = -1 };
	u32 tid = task->pid;

	wait.flags = flags;
	wait.weight = one_in;
	wait.system_call = system_call;
	wait.tgid = task->tgid;
	wait.tid = tid;
	wait.start_ns = bpf_ktime_get_ns();
	wait.cpu_wait_ns = cpu_wait_of(task);
	if (regs && is_among(settings.file_calls, system_call))
		note_file(&wait.inode, task, regs, ROOM_SUBMIT);
	if (flags & WAIT_UNINTERRUPTIBLE)
		wait.holder = lock_holder(task);
	/* In a call that only waits for the caller's own I/O, the stack adds nothing. */
	if (!(flags & WAIT_FOR_OWN))
		wait.stack = take_wait_stack(ctx, wait.start_ns);
	if (regs)
		wait.user_stack = take_user_stack(ctx, wait.start_ns, regs, thread);
	see_task(number_of(task), ROOM_SUBMIT);
	if (!thread || bpf_map_update_elem(&sleepers, &tid, &wait, BPF_ANY)) {
		count(COUNT_SLEEPERS_FULL);
		return;
	}
	atomic_add(&thread->sleepers, 1);
}

#endif
