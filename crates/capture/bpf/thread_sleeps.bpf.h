/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Interruptible sleeps in calls that end when another thread does something (a futex, a pipe, a
 * semaphore). Nearly all of them have nothing to do with storage, so they only cost a few words in
 * an array. A sleep is sent if the thread that ends it waited for storage meanwhile.
 */
#ifndef IOWHY_THREAD_SLEEPS_H
#define IOWHY_THREAD_SLEEPS_H

#include "wait_stacks.bpf.h"
#include "submitters.bpf.h"

/* A sleep is the same as the one before where only a time limit ended that. */
#define SAME_SLEEP_NS 20000000

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WIRE_PLACES);
	__type(key, u32);
	__type(value, struct wire_place);
} places SEC(".maps");

static __always_inline struct wire_place *place_of(u32 tid)
{
	u32 key = tid & (WIRE_PLACES - 1);

	return bpf_map_lookup_elem(&places, &key);
}

static __always_inline bool is_among(const volatile unsigned long long *calls, int number)
{
	u64 call = (u32)number;

	if (call >= WIRE_CALLS)
		return false;
	/* Masked: older verifiers lose the bounds of a value that was spilled to the stack. */
	barrier_var(call);
	return calls[(call / 64) & (WIRE_CALLS / 64 - 1)] >> (call % 64) & 1;
}

/* Kernel stacks are 16 KiB, or 32 KiB with sanitizers. */
#define STACK_BYTES 32768

/*
 * Whether an interrupt is being handled: the current task is then unrelated. The handler and the
 * program's context are on a stack of their own, unless user code was interrupted: then the task is
 * not in a system call. The kernel's interrupt nesting counter is not a symbol on every kernel.
 */
static __always_inline bool is_in_interrupt(void *ctx, struct task_struct *task)
{
	u64 depth = number_of(ctx) - number_of(READ(task, stack));

	if (depth >= STACK_BYTES)
		return true;
	return !(READ(task, flags) & (PF_KTHREAD | PF_WORKERS)) &&
	       system_call_of(user_registers(task)) < 0;
}

/*
 * Assigns the slot to a thread; the number of storage sleepers is shared by all threads of the
 * slot.
 */
static __always_inline void take_place(struct wire_place *place, u32 tid)
{
	place->tid = tid;
	place->asleep = 0;
	place->since_ns = 0;
	place->storage_wait_ns = 0;
	place->is_chained = 0;
}

/* Marks the thread as a storage waiter: it ended a wait for storage, or for such a thread. */
static __always_inline void mark_storage_wait(struct wire_place *place, u32 tid, u64 now)
{
	if (place->tid != tid)
		take_place(place, tid);
	place->storage_wait_ns = now;
}

static __always_inline void begin_thread_sleep(void *ctx, u32 tid, int system_call,
					       struct pt_regs *regs)
{
	struct wire_place *place = place_of(tid);
	u64 now = bpf_ktime_get_ns(), address = first_argument_of(regs);

	if (!place)
		return;
	if (place->tid != tid)
		take_place(place, tid);
	if (!place->since_ns || now - place->woken_ns > SAME_SLEEP_NS ||
	    place->system_call != system_call || place->address != address) {
		place->since_ns = now;
		place->system_call = system_call;
		place->address = address;
		place->flags = 0;
		/* FUTEX_WAIT and similar commands have the timeout as their fourth argument. */
		place->is_timed = system_call == settings.futex_call && fourth_argument_of(regs);
		/*
		 * A thread that was in a wait chain once is likely to be in one again, and worth a
		 * stack.
		 */
		place->user_stack = place->is_chained ? take_user_stack(ctx, now) : -1;
	}
	place->asleep = 1;
}

/* Adds a sleep that began before the watch. */
static __always_inline void add_earlier_thread_sleep(struct wire_place *place, u32 tid,
						     int system_call, struct pt_regs *regs)
{
	if (place->tid == tid && place->asleep)
		return;
	take_place(place, tid);
	place->since_ns = bpf_ktime_get_ns();
	place->system_call = system_call;
	place->address = first_argument_of(regs);
	place->flags = WAIT_BEGUN_BEFORE;
	place->is_timed = system_call == settings.futex_call && fourth_argument_of(regs);
	place->user_stack = -1;
	place->asleep = 1;
}

/* Sends the sleep of `task`, ended by `waker`, which waited for storage meanwhile. */
static __always_inline void send_thread_sleep(struct wire_place *place, struct task_struct *task,
					      struct task_struct *waker, u64 since, u64 now)
{
	struct wire_wait wait = { .kind = WIRE_WAIT,
				  .flags = place->flags | WAIT_FOR_THREAD,
				  .stack = -1 };

	if (!is_allowed(FOR_CHAINS, settings.chains_per_second, now)) {
		count(COUNT_CHAINS_SKIPPED);
		return;
	}
	wait.tgid = task->tgid;
	wait.tid = task->pid;
	wait.start_ns = since;
	wait.wake_ns = now;
	wait.end_ns = now;
	wait.system_call = place->system_call;
	if (place->system_call == settings.futex_call)
		wait.address = place->address;
	wait.user_stack = place->user_stack;
	wait.waker = READ(waker, pid);
	see_task(number_of(task), ROOM_SUBMIT);
	see_task(number_of(waker), ROOM_SUBMIT);
	emit(&wait, sizeof(wait), COUNT_RING_FULL_WAIT);
	place->is_chained = 1;
}

static __always_inline void end_thread_sleep(void *ctx, struct wire_place *place,
					     struct task_struct *task)
{
	u64 now = bpf_ktime_get_ns(), since = place->since_ns;
	struct task_struct *waker;
	struct wire_place *of_waker;

	place->asleep = 0;
	place->since_ns = 0;
	if (now - since < settings.thread_sleep_ns && !place->is_timed)
		return;
	waker = current_task();
	if (is_in_interrupt(ctx, waker)) {
		/* A timeout interrupted it; other interrupts are events from elsewhere. */
		place->woken_ns = now;
		if (place->is_timed)
			place->since_ns = since;
		return;
	}
	if (now - since < settings.thread_sleep_ns)
		return;
	of_waker = place_of(READ(waker, pid));
	if (!of_waker || of_waker->tid != READ(waker, pid) || of_waker->storage_wait_ns <= since)
		return;
	send_thread_sleep(place, task, waker, since, now);
	place->storage_wait_ns = now;
}

#endif
