/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Waits that were not chosen to be recorded (see thinning.bpf.h). A few words of each are kept in
 * its thread's slot; those that turn out to be long are sent after all.
 */
#ifndef IOWHY_SKIPPED_WAITS_H
#define IOWHY_SKIPPED_WAITS_H

#include "thinning.bpf.h"
#include "thread_sleeps.bpf.h"

/* What ended a sleep that began at `start`: the request that completed last, or the thread. */
static __always_inline void note_waker(void *ctx, u64 start, u64 now, unsigned long long *request,
				       unsigned int *thread)
{
	struct task_struct *waker = current_task();
	struct wire_ended *ended;
	u32 zero = 0;

	ended = bpf_map_lookup_elem(&last_ended, &zero);
	/* User space decides whether it waited for that request, from the data of both. */
	*request = 0;
	if (ended && ended->time_ns >= start) {
		*request = ended->request;
		if (now - ended->time_ns < WIRE_ENDED_JUST_NOW_NS)
			return;
	}
	if (!is_in_interrupt(ctx, waker))
		*thread = READ(waker, pid);
}

/* Keeps the few words of a wait that is not recorded, unless it turns out to be long. */
static __always_inline void skip_sleep(struct wire_thread *thread, u32 tid, u32 flags,
				       int system_call)
{
	if (thread->tid != tid)
		take_thread(thread, tid);
	thread->asleep = SLEEP_SKIPPED;
	thread->flags = flags;
	thread->system_call = system_call;
	thread->since_jiffies = bpf_jiffies64();
	thread->since_ns = bpf_ktime_get_ns();
	thread->woken_ns = 0;
	thread->request = 0;
	thread->waker = 0;
}

static __always_inline bool is_skipped_sleep(struct wire_thread *thread, u32 tid)
{
	return thread && thread->asleep == SLEEP_SKIPPED && thread->tid == tid && thread->since_ns;
}

/* Sends what the record of a skipped wait refers to: its task, and its file, which `found` gets. */
static __always_inline void see_skipped(struct wire_inode *found, struct wire_thread *thread,
					struct task_struct *task, u32 level)
{
	if (!(READ(task, flags) & (PF_KTHREAD | PF_WORKERS)) &&
	    is_among(settings.file_calls, thread->system_call))
		note_file(found, task, user_registers(task), level);
	see_task(number_of(task), level);
}

static __always_inline void fill_skipped(struct wire_wait *wait, struct wire_thread *thread,
					 struct task_struct *task)
{
	wait->flags = thread->flags | WAIT_LISTED;
	wait->tgid = READ(task, tgid);
	wait->tid = READ(task, pid);
	wait->start_ns = thread->since_ns;
	wait->wake_ns = thread->woken_ns;
	wait->request = thread->request;
	wait->waker = thread->waker;
	wait->system_call = thread->system_call;
	wait->stack = wait->user_stack = -1;
}

/*
 * A long wait that was skipped: its stack is still that of the sleep. Little is kept on the BPF
 * stack, of which older kernels have 512 bytes for all calls.
 */
static __noinline void send_late(struct wire_thread *thread, struct task_struct *task, u64 now)
{
	union room *room = room_of(ROOM_SUBMIT);
	struct wire_inode found = {};
	struct wire_sleeper *late;

	if (!room)
		return;
	/* First, because it uses the same scratch buffer. */
	see_skipped(&found, thread, task, ROOM_SUBMIT);
	late = &room->sleeper;
	__builtin_memset(late, 0, sizeof(*late));
	late->wait.kind = WIRE_LATE_WAIT;
	fill_skipped(&late->wait, thread, task);
	late->wait.inode = found;
	late->wait.end_ns = now;
	if (is_allowed(FOR_STACKS, settings.wait_stacks_per_second, now) &&
	    bpf_get_task_stack(task, late->frames, sizeof(late->frames), 0) < 0)
		count(COUNT_WAIT_STACKS);
	emit(late, sizeof(*late), COUNT_RING_FULL_WAIT);
}

static __always_inline void end_skipped_sleep(struct wire_thread *thread, struct task_struct *task)
{
	u64 now;

	if (has_ticked(thread)) {
		now = bpf_ktime_get_ns();
		mark_storage_wait(thread, thread->tid, thread->since_ns, now);
		if (now - thread->since_ns >= WIRE_LONG_WAIT_NS)
			send_late(thread, task, now);
	}
	thread->asleep = SLEEP_NONE;
	thread->since_ns = 0;
}

static __always_inline void wake_skipped(void *ctx, struct wire_thread *thread)
{
	u64 now;

	if (!has_ticked(thread))
		return;
	now = bpf_ktime_get_ns();
	thread->woken_ns = now;
	note_waker(ctx, thread->since_ns, now, &thread->request, &thread->waker);
}

/* Whether the thread's wait was skipped, and has lasted for long. */
static __always_inline bool is_long_skipped(struct wire_thread *thread, u32 tid)
{
	return is_skipped_sleep(thread, tid) &&
	       bpf_ktime_get_ns() - thread->since_ns >= WIRE_LONG_WAIT_NS;
}

#endif
